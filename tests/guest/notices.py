"""Events, documents and hooks in few words, for tests of what the agent decides."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from fairwarning.guest.agent.config import HookKind, HookSettings
from fairwarning.guest.agent.plan import Action, AgentJournalEntry, RunHook, SendApproval, WriteNote
from fairwarning.guest.events import Document, Event, EventSource, EventStatus, EventType
from fairwarning.guest.watch import Phase

ME = "vm-1"
NOW = datetime(2030, 1, 2, 3, 0, 0, tzinfo=UTC)
NOTICE = timedelta(minutes=15)
MARGIN = timedelta(seconds=5)  # of a configuration that says nothing else


def event(
    name: str = "A",
    *resources: str,
    type: EventType = EventType.REBOOT,  # noqa: A002  (as the event has it)
    source: EventSource = EventSource.PLATFORM,
    started: bool = False,
    notice: timedelta | None = NOTICE,
) -> Event:
    """An event of this machine, unless others are named."""
    return Event(
        id=name,
        type=type,
        status=EventStatus.STARTED if started else EventStatus.SCHEDULED,
        resources=resources or (ME,),
        not_before=None if started or notice is None else NOW + notice,
        source=source,
    )


def document(*events: Event) -> Document:
    """What the endpoint says."""
    return Document(1, events)


def hook(
    name: str = "drain",
    phase: Phase = Phase.SCHEDULED,
    *types: EventType,
    source: str = "",
    required: bool = True,
    anyone: bool = False,
    timeout: timedelta = timedelta(minutes=5),
) -> HookSettings:
    """A hook; what it would do is of no account."""
    return HookSettings(
        name=name,
        phase=phase,
        kind=HookKind.COMMAND,
        command=("true",),
        types=frozenset(types),
        source=source,
        required=required,
        anyone=anyone,
        timeout=timeout,
    )


def entries(actions: Iterable[Action]) -> list[AgentJournalEntry]:
    """What is written down."""
    return [one.entry for one in actions if isinstance(one, WriteNote)]


def runs(actions: Iterable[Action]) -> list[str]:
    """The hooks that begin, by their names."""
    return [one.hook.name for one in actions if isinstance(one, RunHook)]


def sends(actions: Iterable[Action]) -> list[str]:
    """The events that are approved."""
    return [one.event.id for one in actions if isinstance(one, SendApproval)]
