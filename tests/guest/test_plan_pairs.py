"""Two events of one machine: one is finished before the other, and errors stay in one (IB1)."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from fairwarning.guest.agent.actions import Action, ReportError, RunHook, ShortenHook
from fairwarning.guest.agent.config import ApprovalPolicy
from fairwarning.guest.agent.event_state import ApprovalResult
from fairwarning.guest.events import Document, Event, EventType
from fairwarning.guest.watch import Phase
from tests.guest.notices import (
    BACK,
    DRAIN,
    MARGIN,
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


@pytest.mark.parametrize("other", [event("B"), event("B", "vm-2")])
def test_an_event_that_ends_beside_a_prepared_one_is_undone_after_it(other: Event) -> None:
    """The machine never ends undrained but approved, also if the event names it no longer.

    A restart does not change that.
    """
    agent_plan = plan(DRAIN, BACK)
    both = agent_plan.read(document(event("A"), event("B")), NOW)
    for name in ("A", "B"):
        both += agent_plan.done(name, Phase.SCHEDULED, "drain", "", NOW)
    after = agent_plan.read(document(other), NOW)
    assert runs(after) == []
    assert runs(agent_plan.due(NOW)) == []
    again = plan(DRAIN, BACK)
    again.restore(entries([*both, *after]))
    assert runs(again.resume(document(other), NOW)) == []
    for each in (agent_plan, again):
        assert runs(each.read(document(), NOW)) == ["back", "back"]


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
    flush = hook("flush", Phase.STARTED, EventType.REBOOT)
    agent_plan = plan(hook("drain", Phase.SCHEDULED, EventType.REBOOT), flush, BACK)
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
    actions = agent_plan.approved("A", now, ApprovalResult.ACCEPTED)
    actions += [*agent_plan.due(now), *agent_plan.read(listed, now)]
    actions += agent_plan.read(document(), now)
    actions += agent_plan.done("A", Phase.OVER, "back", "exit code 1", now)
    actions += agent_plan.due(now)
    assert reports(actions) == []
