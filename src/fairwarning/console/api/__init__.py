"""The operator API as plain async methods, for the HTTP routes and the page (C4)."""

from fairwarning.console.api.endpoints import endpoints_of
from fairwarning.console.api.events import EventsApi
from fairwarning.console.api.rollouts import RolloutsApi
from fairwarning.console.api.service import ServiceApi
from fairwarning.console.api.sets import ScaleSetsApi

__all__ = ["ENDPOINTS", "Api"]


class Api(ServiceApi, ScaleSetsApi, EventsApi, RolloutsApi):
    """The whole operator API of one fleet."""


ENDPOINTS = tuple(endpoints_of(Api))
