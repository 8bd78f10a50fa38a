"""IG1 to IG7 hold through any sequence of inputs; a plan that breaks one is found."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from fairwarning.guest import events
from fairwarning.guest.agent import hooks
from fairwarning.guest.agent.actions import Action, SendApproval, WriteNote
from fairwarning.guest.agent.event_rules import EventRules
from fairwarning.guest.agent.event_state import ApprovalResult, EventState
from fairwarning.guest.agent.plan import AgentPlan
from fairwarning.guest.events import Document, Event
from tests.campaigns import split
from tests.guest.agent_state_machine import AgentStateMachine

pytestmark = [pytest.mark.hypothesis, pytest.mark.spec("G4", "G5", "G6")]


def test_invariants_hold() -> None:
    """Documents, hook results, group members, refusals, times and crashes in any order."""
    examples = 2 * settings().max_examples
    run_state_machine_as_test(
        AgentStateMachine, settings=settings(max_examples=examples, stateful_step_count=40)
    )


def _always(value: object) -> Callable[..., object]:
    return lambda *_: value


def _start_silently(self: AgentPlan, *arguments: Any) -> list[Action]:  # noqa: ANN401  (of the method)
    return [action for action in START(self, *arguments) if not isinstance(action, WriteNote)]


def _due_without_document(self: AgentPlan, now: datetime) -> list[Action]:
    return self.read(Document(), now)


def _forget(self: AgentPlan, tracked: EventState, now: datetime) -> list[Action]:
    return self._forget(tracked, now)


def _count_any_answer(
    self: AgentPlan, event: str, now: datetime, result: ApprovalResult
) -> list[Action]:
    if tracked := self.known.get(event):
        tracked.approval_answered(now, result)
    return []


def _approve_at_any_time(_: AgentPlan, tracked: EventState, now: datetime) -> list[Action]:
    is_sent = tracked.resend is not None and tracked.resend.is_due(now)
    return [SendApproval(tracked.event)] if is_sent else []


def _send_unsent(self: AgentPlan, document: Document, now: datetime, *more: Any) -> list[Action]:  # noqa: ANN401  (of the method)
    unsent = [tracked for tracked in self.known.values() if tracked.approving]
    actions = RESUME(self, document, now, *more)
    return [*actions, *(SendApproval(each.event) for each in unsent if not each.over)]


def _is_changed(before: Event | None, event: Event) -> list[events.Change]:
    if before is not None and before.resources != event.resources:
        return [events.Change(events.Phase.CHANGED, event)]
    return CHANGES(before, event)


CHANGES = events._event_changes
RESUME = AgentPlan.resume
START = AgentPlan._start_hook
PLANTS: list[tuple[str, list[tuple[object, str, object]]]] = [
    ("IG1: approved before hooks", [(EventRules, "required_states", _always([]))]),
    ("IG1: prepared beside recovery", [(AgentPlan, "_may_begin", _always(value=True))]),
    (
        "IG1: a preparation is undone",
        [
            (AgentPlan, "_is_prepared", _always(value=False)),
            (AgentPlan, "_is_stopping", _always(value=False)),
        ],
    ),
    ("IG2: not journaled", [(AgentPlan, "_start_hook", _start_silently)]),
    ("IG2: an interrupted hook is lost", [(EventState, "interrupted", _always([]))]),
    ("IG2: waits for ever", [(AgentPlan, "_may_begin", _always(value=False))]),
    ("IG3", [(EventRules, "may_approve", _always(value=True))]),
    ("IG4", [(AgentPlan, "_time_left", _always(timedelta(hours=1)))]),
    ("IG5", [(AgentPlan, "due", _due_without_document)]),
    ("IG6", [(AgentPlan, "_recover", _forget)]),
    ("IG7", [(AgentPlan, "_approve_again", _always([]))]),
    ("order", [(EventRules, "may_follow", _always(value=True))]),
    ("IG1: beside a function that hangs", [(hooks, "is_in_the_way", _always(value=False))]),
    ("a new order is noted", [(events, "_event_changes", _is_changed)]),
    ("G5", [(EventRules, "other_machines", _always([]))]),
    ("IG1: approved again too early", [(AgentPlan, "_approve_again", _approve_at_any_time)]),
    (
        "IG1: a stale answer counts",
        [
            (AgentPlan, "approved", _count_any_answer),
            (AgentPlan, "_approve_again", _approve_at_any_time),
        ],
    ),
    ("IG1: approved after a restart", [(AgentPlan, "resume", _send_unsent)]),
]


@pytest.mark.parametrize(("name", "patches"), split(PLANTS, 1), ids=[name for name, _ in PLANTS])
def test_a_planted_bug_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, patches: list[tuple[object, str, object]]
) -> None:
    """Within 1,500 sequences, without a random choice of them."""
    for owner, attribute, value in patches:
        assert hasattr(owner, attribute), name
        monkeypatch.setattr(owner, attribute, value)
    search = settings(
        max_examples=1500,
        stateful_step_count=30,
        phases=[Phase.generate],
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    with pytest.raises(Exception):  # noqa: B017  (of an invariant, or of the plan itself)
        run_state_machine_as_test(AgentStateMachine, settings=search)
