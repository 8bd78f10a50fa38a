"""Short constructors of events, documents, hooks and plans for tests of the agent's plan."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from fairwarning.guest.agent.actions import (
    Action,
    AgentJournalEntry,
    GroupMembers,
    RunHook,
    SendApproval,
    WriteNote,
)
from fairwarning.guest.agent.config import (
    AgentConfig,
    ApprovalPolicy,
    GroupSettings,
    HookKind,
    HookSettings,
)
from fairwarning.guest.agent.plan import AgentPlan
from fairwarning.guest.events import Document, Event, EventSource, EventStatus, EventType
from fairwarning.guest.watch import Phase

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


def entries(actions: Iterable[Action]) -> list[AgentJournalEntry]:
    """Return the journal entries among these actions."""
    return [action.entry for action in actions if isinstance(action, WriteNote)]


def runs(actions: Iterable[Action]) -> list[str]:
    """Return the names of the hooks that these actions start."""
    return [action.hook.name for action in actions if isinstance(action, RunHook)]


def sends(actions: Iterable[Action]) -> list[str]:
    """Return the events that these actions approve."""
    return [action.event.id for action in actions if isinstance(action, SendApproval)]


# --- Plans ----------------------------------------------------------------------------------------

DRAIN = hook("drain")
NOTE = hook("note", required=False)
FLUSH = hook("flush", Phase.STARTED)
BACK = hook("back", Phase.OVER)
ALL = (DRAIN, NOTE, FLUSH, BACK)
FOLDER = GroupSettings(folder="/shared")
THREE = (ME, "vm-2", "vm-3")


def plan(
    *hooks_: object,
    approve: ApprovalPolicy = ApprovalPolicy.WHEN_DONE,
    group: GroupSettings | None = None,
) -> AgentPlan:
    """Return a plan of this machine with these hooks."""
    return AgentPlan(AgentConfig(hooks=hooks_ or ALL, approve={"": approve}, group=group), ME)  # type: ignore[arg-type]


def members(*alive: str, ready: tuple[str, ...] = ()) -> GroupMembers:
    """Return group members that are alive and ready."""
    return GroupMembers(frozenset(alive), frozenset(ready))


def restored(
    *lines: AgentJournalEntry,
    group: GroupSettings | None = None,
    hooks: tuple[HookSettings, ...] = ALL,
) -> AgentPlan:
    """Return the plan of an agent with these journal entries."""
    agent_plan = plan(*hooks, group=group)
    agent_plan.restore(lines)
    return agent_plan


SEEN = AgentJournalEntry("seen", "A", seen=event())
BEGUN = AgentJournalEntry("begun", "A", Phase.SCHEDULED, "drain")
DONE = AgentJournalEntry("done", "A", Phase.SCHEDULED, "drain")
NOTED = AgentJournalEntry("begun", "A", Phase.SCHEDULED, "note")
NOTE_DONE = AgentJournalEntry("done", "A", Phase.SCHEDULED, "note")
APPROVING = AgentJournalEntry("approving", "A")
APPROVED = AgentJournalEntry("approved", "A")
OVER = AgentJournalEntry("over", "A", cancelled=True)
RECOVERING = AgentJournalEntry("begun", "A", Phase.OVER, "back")
RECOVERED = AgentJournalEntry("done", "A", Phase.OVER, "back")
