"""Fairwarning: notice before something happens to a machine, and a say in when it happens.

    from fairwarning import ScheduledEvents

    for change in ScheduledEvents().watch():
        ...

Whatever is imported from here needs the standard library only, and is loaded when it is asked for:
the service, whose package this is as well, does without.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fairwarning.core.errors import FairwarningError, Refused, Unavailable
    from fairwarning.guest.aio import AsyncScheduledEvents
    from fairwarning.guest.client import ScheduledEvents
    from fairwarning.guest.events import (
        Change,
        Document,
        Event,
        EventSource,
        EventStatus,
        EventType,
        Phase,
        SkippedEvent,
        Unreadable,
        changes,
    )

    __version__: str

__all__ = [
    "AsyncScheduledEvents",
    "Change",
    "Document",
    "Event",
    "EventSource",
    "EventStatus",
    "EventType",
    "FairwarningError",
    "Phase",
    "Refused",
    "ScheduledEvents",
    "SkippedEvent",
    "Unavailable",
    "Unreadable",
    "changes",
]

_HOMES = {
    **dict.fromkeys(("FairwarningError", "Refused", "Unavailable"), "core.errors"),
    "AsyncScheduledEvents": "guest.aio",
    "ScheduledEvents": "guest.client",
}


def __getattr__(name: str) -> object:
    if name == "__version__":
        return import_module("importlib.metadata").version(__name__)
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = _HOMES.get(name, "guest.events")
    return getattr(import_module(f"{__name__}.{home}"), name)
