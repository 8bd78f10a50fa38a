"""The operator API as plain async methods, for the HTTP routes and the page (C4)."""

from fairwarning.console.api.conditions import ClockAndFaultsApi
from fairwarning.console.api.events import EventsApi
from fairwarning.console.api.history import JournalApi
from fairwarning.console.api.integrations import IntegrationsApi
from fairwarning.console.api.rollouts import RolloutsApi
from fairwarning.console.api.sets import ScaleSetsApi

__all__ = ["Api"]


class Api(ScaleSetsApi, EventsApi, RolloutsApi, ClockAndFaultsApi, JournalApi, IntegrationsApi):
    """The whole operator API of one fleet."""
