"""What Azure has no public interface for, as plain functions: over HTTP and for the page (C4)."""

from fairwarning.console.api.conditions import Conditions
from fairwarning.console.api.events import Events
from fairwarning.console.api.history import History
from fairwarning.console.api.outward import Outward
from fairwarning.console.api.rollouts import Rollouts
from fairwarning.console.api.sets import Sets

__all__ = ["Api"]


class Api(Sets, Events, Rollouts, Conditions, History, Outward):
    """All of it, over one fleet."""
