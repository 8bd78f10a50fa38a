"""Two events of one machine: one is finished before the other, and errors stay in one (IB1)."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.guest.agent.actions import Action, ReportError, RunHook, SendApproval, ShortenHook
from fairwarning.guest.agent.config import AgentConfig, ApprovalPolicy
from fairwarning.guest.agent.plan import AgentPlan
from fairwarning.guest.events import Document, Event, EventType
from fairwarning.guest.watch import Phase
from tests.guest.notices import (
    BACK,
    DRAIN,
    MARGIN,
    ME,
    NOTE,
    NOW,
    document,
    entries,
    event,
    hook,
    plan,
    runs,
    sends,
)

pytestmark = pytest.mark.spec("G4", "G6")


@pytest.mark.parametrize("failed", ["", "exit code 1"])
def test_a_replaced_event_is_undone_before_the_new_one_is_prepared(failed: str) -> None:
    """The document has the new event and no longer the old one; also if undoing failed."""
    agent_plan = plan(DRAIN, BACK)
    agent_plan.read(document(event("A")), NOW)
    agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)
    replaced = agent_plan.read(document(event("B", type=EventType.PREEMPT)), NOW)
    assert runs(replaced) == ["back"]
    assert sends(replaced) == []
    after = agent_plan.done("A", Phase.OVER, "back", failed, NOW)
    assert runs(after) == ["drain"]
    assert sends(agent_plan.done("B", Phase.SCHEDULED, "drain", "", NOW)) == ["B"]
    assert runs(agent_plan.due(NOW + timedelta(hours=1))) == []  # the machine stays drained


def test_undoing_takes_at_most_half_the_notice_of_the_next_event() -> None:
    """IG4: enough time is left to prepare for it, whichever of the two was known first."""
    agent_plan = plan(DRAIN, BACK)
    agent_plan.read(document(event("A", started=True)), NOW)
    soon = event("B", notice=timedelta(seconds=30) + MARGIN)
    (run,) = [
        action for action in agent_plan.read(document(soon), NOW) if isinstance(action, RunHook)
    ]
    assert (run.hook, run.deadline) == (BACK, NOW + timedelta(seconds=15))
    sooner = event("B", notice=timedelta(seconds=20) + MARGIN)
    (shorten,) = [
        action
        for action in agent_plan.read(document(sooner), NOW)
        if isinstance(action, ShortenHook)
    ]
    expected = ShortenHook("A", Phase.OVER, "back", NOW + timedelta(seconds=10))
    assert shorten == expected


def test_an_event_that_ends_beside_a_prepared_one_is_undone_after_it() -> None:
    """The machine never ends undrained but approved; a restart does not change that."""
    agent_plan = plan(DRAIN, BACK)
    both = agent_plan.read(document(event("A"), event("B")), NOW)
    for name in ("A", "B"):
        both += agent_plan.done(name, Phase.SCHEDULED, "drain", "", NOW)
    after = agent_plan.read(document(event("B")), NOW)
    assert runs(after) == []
    assert runs(agent_plan.due(NOW)) == []
    again = plan(DRAIN, BACK)
    again.restore(entries([*both, *after]))
    assert runs(again.resume(document(event("B")), NOW)) == []
    for each in (agent_plan, again):
        assert runs(each.read(document(), NOW)) == ["back", "back"]


# --- Pairs of events ------------------------------------------------------------------------------

HOOKS = (DRAIN, NOTE, hook("save", Phase.SCHEDULED, EventType.REBOOT), BACK)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["A", "B", "hook", "tick", "restart"]),
        st.sampled_from(["", "scheduled", "started"]),
        st.sampled_from(["", "", "exit code 1"]),
    ),
    max_size=25,
)


class PairOfEvents:
    """A machine with two events at most; undrained by `back`, drained by `drain`."""

    def __init__(self) -> None:
        self.plan = AgentPlan(AgentConfig(hooks=HOOKS), ME)
        self.now, self.fresh = NOW, True
        self.listed: dict[str, Event] = {}
        self.running: list[RunHook] = []
        self.notes: list[Action] = []
        self.undrained = True
        self.approved: set[str] = set()

    def take(self, kind: str, what: str, failed: str) -> None:
        """Take a step."""
        self.now += timedelta(seconds=3)
        if kind == "hook" and self.running:
            self.end_hook(failed)
        elif kind == "tick":
            self.act(self.plan.due(self.now))
        elif kind == "restart":
            self.running.clear()
            self.plan = AgentPlan(AgentConfig(hooks=HOOKS), ME)
            self.plan.restore(entries(self.notes))
            self.fresh = True
            self.read()
        elif kind in {"A", "B"}:
            self.listed.pop(kind, None)
            if what:
                kinds = EventType.REBOOT if kind == "A" else EventType.FREEZE
                self.listed[kind] = event(kind, type=kinds, started=what == "started")
            self.read()

    def read(self) -> None:
        """Read the document."""
        step = self.plan.resume if self.fresh else self.plan.read
        self.fresh = False
        self.approved &= self.listed.keys()
        self.act(step(document(*self.listed.values()), self.now))

    def end_hook(self, failed: str) -> None:
        """End the hook that began first."""
        run = self.running.pop(0)
        if not failed and run.hook in {DRAIN, BACK}:
            self.undrained = run.hook is BACK
        self.act(self.plan.done(run.event.id, run.phase, run.hook.name, failed, self.now))

    def act(self, actions: Iterable[Action]) -> None:
        """Perform actions, and check that nothing undoes a preparation."""
        for action in actions:
            assert not isinstance(action, ReportError)
            self.notes.append(action)
            if isinstance(action, RunHook):
                self.running.append(action)
                phases = {(run.phase is Phase.OVER) for run in self.running}
                assert phases != {False, True}, "over runs beside scheduled or started"
            elif isinstance(action, SendApproval):
                self.approved.add(action.event.id)
        assert not (self.approved and self.undrained), "approved, but not drained"


@pytest.mark.hypothesis
@given(STEPS)
def test_a_pair_of_events(steps: list[tuple[str, str, str]]) -> None:
    """IG1: nothing undoes a preparation, in whatever order two events come, start and vanish."""
    pair = PairOfEvents()
    for step in steps:
        pair.take(*step)
    pair.listed.clear()
    pair.read()
    while pair.plan.known:
        pair.take("hook" if pair.running else "tick", "", "")
        pair.now += timedelta(minutes=5)
    assert pair.undrained


# --- Errors (IB1) ---------------------------------------------------------------------------------


class PoisonType(str):
    """The type of an event that no code can handle."""

    __slots__ = ()

    def __hash__(self) -> int:
        raise ArithmeticError("poison")


def poisoned(name: str, **more: bool) -> Event:
    """Return an event that makes decisions about it fail."""
    return replace(event(name, **more), type=PoisonType("Reboot"))  # type: ignore[arg-type]


def reports(actions: Iterable[Action]) -> list[str]:
    """Return the events whose decisions failed."""
    return [action.event.id for action in actions if isinstance(action, ReportError)]


def test_an_error_stays_in_its_event() -> None:
    """The other event is handled, and the next document tries again, also after a restart."""
    agent_plan = plan(hook("drain", Phase.SCHEDULED, EventType.REBOOT), BACK)
    first = agent_plan.read(document(poisoned("A"), event("B")), NOW)
    assert (reports(first), runs(first)) == (["A"], ["drain"])
    assert reports(agent_plan.read(document(poisoned("A"), event("B")), NOW)) == ["A"]
    done = agent_plan.done("B", Phase.SCHEDULED, "drain", "", NOW)
    assert sends(done) == ["B"]
    assert runs(agent_plan.read(document(event("A"), event("B")), NOW)) == ["drain"]
    assert reports(agent_plan.read(document(event("A"), poisoned("B", started=True)), NOW)) == ["B"]
    assert sends(agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)) == ["A"]
    assert runs(agent_plan.read(document(), NOW)) == ["back", "back"]


EDGES = [
    datetime.min.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=UTC) + timedelta(seconds=1),
    NOW,
    datetime.max.replace(tzinfo=UTC) - timedelta(seconds=1),
    datetime.max.replace(tzinfo=UTC),
]


@pytest.mark.parametrize("policy", [ApprovalPolicy.WHEN_DONE, ApprovalPolicy.AT_ONCE])
@pytest.mark.parametrize("now", EDGES)
@pytest.mark.parametrize("not_before", EDGES)
def test_dates_at_the_edge(now: datetime, not_before: datetime, policy: ApprovalPolicy) -> None:
    """No date of an event or of the endpoint's clock is an error: the event is handled."""
    agent_plan = plan(DRAIN, BACK, approve=policy)
    listed = Document(1, (replace(event(), not_before=not_before),))
    actions = agent_plan.read(listed, now)
    actions += agent_plan.done("A", Phase.SCHEDULED, "drain", "", now)
    assert (reports(actions), sends(actions)) == ([], ["A"])
    actions = [*agent_plan.approved("A", now), *agent_plan.due(now), *agent_plan.read(listed, now)]
    actions += agent_plan.read(document(), now)
    actions += agent_plan.done("A", Phase.OVER, "back", "exit code 1", now)
    actions += agent_plan.due(now)
    assert reports(actions) == []
