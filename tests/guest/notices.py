"""Short constructors of events, documents, hooks and plans for tests of the agent's plan."""

from datetime import UTC, datetime, timedelta

from fairwarning.guest.agent.actions import GroupMembers
from fairwarning.guest.agent.config import GroupSettings, HookKind, HookSettings
from fairwarning.guest.events import Document, Event, EventSource, EventStatus, EventType, Phase

ME = "vm-1"
NOW = datetime(2030, 1, 2, 3, 0, 0, tzinfo=UTC)
NOTICE = timedelta(minutes=15)
MARGIN = timedelta(seconds=5)  # the default of a configuration


def event(
    name: str = "A",
    *resources: str,
    type: EventType = EventType.REBOOT,  # noqa: A002  (the name of the event field)
    source: EventSource = EventSource.PLATFORM,
    started: bool = False,
    notice: timedelta | None = NOTICE,
) -> Event:
    """Return an event of this machine, or of the named ones."""
    return Event(
        id=name,
        type=type,
        status=EventStatus.STARTED if started else EventStatus.SCHEDULED,
        resources=resources or (ME,),
        not_before=None if started or notice is None else NOW + notice,
        source=source,
    )


def document(*events: Event) -> Document:
    """Return a document with these events."""
    return Document(1, events)


def hook(
    name: str = "drain",
    phase: Phase = Phase.SCHEDULED,
    *types: EventType,
    source: str = "",
    required: bool = True,
    timeout: timedelta = timedelta(minutes=5),
    order: int = 0,
    boot: bool = False,
) -> HookSettings:
    """Return a hook whose command is irrelevant."""
    return HookSettings(
        name=name,
        phase=phase,
        kind=HookKind.COMMAND,
        command=("true",),
        types=frozenset(types),
        source=source,
        required=required,
        timeout=timeout,
        order=order,
        boot=boot,
    )


# --- Plans ----------------------------------------------------------------------------------------

DRAIN = hook("drain")
NOTE = hook("note", required=False)
FLUSH = hook("flush", Phase.STARTED)
BACK = hook("back", Phase.OVER)
ALL = (DRAIN, NOTE, FLUSH, BACK)
FOLDER = GroupSettings(folder="/shared")
THREE = (ME, "vm-2", "vm-3")


def members(*alive: str, ready: tuple[str, ...] = (), failed: tuple[str, ...] = ()) -> GroupMembers:
    """Return group members that are alive, ready and failed."""
    return GroupMembers(frozenset(alive), frozenset(ready), frozenset(failed))
