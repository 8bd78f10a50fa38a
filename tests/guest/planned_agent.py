"""An agent's plan in virtual time: what it does after each input, as words."""

from datetime import datetime, timedelta

from fairwarning.guest.agent.actions import (
    Action,
    AgentJournalEntry,
    GroupMembers,
    ReportError,
    RunHook,
    SendApproval,
    ShortenHook,
    SignalState,
    StopHook,
    WriteNote,
)
from fairwarning.guest.agent.config import AgentConfig, ApprovalPolicy, GroupSettings, HookSettings
from fairwarning.guest.agent.event_state import ApprovalResult
from fairwarning.guest.agent.plan import AgentPlan
from fairwarning.guest.events import Event, Phase
from tests.guest.notices import ALL, ME, NOW, document, event

PHASES = {hook.name: hook.phase for hook in ALL}


def after(seconds: float) -> datetime:
    """Return a time after the notice."""
    return NOW + timedelta(seconds=seconds)


def journal(*lines: str, seen: Event | None = None) -> list[AgentJournalEntry]:
    """Return the journal of event A: `seen`, `begun drain`, `done over/back: exit code 1`, ..."""
    entries = []
    for line in lines:
        words, _, failed = line.partition(": ")
        step, _, name = words.partition(" ")
        phase, _, hook = name.rpartition("/")
        if hook and not phase:
            phase = PHASES.get(hook, Phase.OVER)
        described = (seen or event()) if step == "seen" else None
        entries.append(AgentJournalEntry(step, "A", phase, hook, failed, seen=described))
    return entries


def describe(action: Action) -> str:
    """Return an action as words."""
    match action:
        case RunHook(hook):
            return f"run {hook.name}"
        case StopHook(hook=name):
            return f"stop {name}"
        case ShortenHook(hook=name):
            return f"shorten {name}"
        case SendApproval(event):
            return f"approve {event.id}"
        case SignalState(event, ready):
            return f"{'ready for' if ready else 'failed'} {event.id}"
        case ReportError(event):
            return f"error in {event.id}"
    return f"note {action.entry.step}"


class PlannedAgent:
    """A plan with these hooks; each input returns what the agent then does, but not the notes."""

    def __init__(
        self,
        *hooks: HookSettings,
        approve: ApprovalPolicy = ApprovalPolicy.WHEN_DONE,
        group: GroupSettings | None = None,
        journal: list[AgentJournalEntry] | None = None,
    ) -> None:
        config = AgentConfig(hooks=hooks or ALL, approve={"": approve}, group=group)
        self.plan = AgentPlan(config, ME)
        self.plan.restore(journal or [])
        self.phases = PHASES | {hook.name: hook.phase for hook in hooks}
        self.actions: list[Action] = []
        """What it did last, with the notes."""
        self.journal: list[AgentJournalEntry] = []
        """All notes."""

    def _take(self, actions: list[Action]) -> list[str]:
        self.actions = actions
        self.journal += self.notes
        return [describe(action) for action in actions if not isinstance(action, WriteNote)]

    @property
    def notes(self) -> list[AgentJournalEntry]:
        return [action.entry for action in self.actions if isinstance(action, WriteNote)]

    @property
    def steps(self) -> list[str]:
        return [entry.step for entry in self.notes]

    @property
    def runs(self) -> list[RunHook]:
        return [action for action in self.actions if isinstance(action, RunHook)]

    def starts(self, *events: Event, now: datetime = NOW, boot: Event | None = None) -> list[str]:
        """Read the first document."""
        return self._take(self.plan.resume(document(*events), now, boot))

    def reads(self, *events: Event, now: datetime = NOW) -> list[str]:
        return self._take(self.plan.read(document(*events), now))

    def ends(self, name: str, failed: str = "", *, of: str = "A", now: datetime = NOW) -> list[str]:
        return self._take(self.plan.done(of, self.phases[name], name, failed, now))

    def waits(self, now: datetime = NOW) -> list[str]:
        return self._take(self.plan.due(now))

    def answered(self, result: ApprovalResult, now: datetime = NOW) -> list[str]:
        """Read the answer to the approval of event A."""
        return self._take(self.plan.approved("A", now, result))

    def hears(self, members: GroupMembers, now: datetime = NOW) -> list[str]:
        return self._take(self.plan.tick({"A": members}, now))


def drained(
    *hooks: HookSettings, listed: Event | None = None, group: GroupSettings | None = None
) -> PlannedAgent:
    """Return an agent that has read event A, and whose hook `drain` has succeeded."""
    agent = PlannedAgent(*hooks, group=group)
    agent.reads(listed or event())
    agent.ends("drain")
    return agent
