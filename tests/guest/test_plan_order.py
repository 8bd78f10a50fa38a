"""Hooks with an order: each begins when those before it have ended."""

from fairwarning.guest.agent.event_state import NO_TIME_LEFT
from fairwarning.guest.watch import Phase
from tests.guest.notices import (
    BEGUN,
    DONE,
    NOW,
    SEEN,
    document,
    event,
    hook,
    plan,
    restored,
    runs,
    sends,
)

DRAIN, SAVE, STOP = hook("drain"), hook("save"), hook("stop", order=10)
UP, JOIN = hook("up", Phase.OVER, order=1), hook("join", Phase.OVER, order=2)


def test_a_hook_begins_when_those_before_it_are_done() -> None:
    """Those of the same number run at once; the approval waits for all."""
    agent_plan = plan(STOP, DRAIN, SAVE)
    assert runs(agent_plan.read(document(event()), NOW)) == ["drain", "save"]
    assert runs(agent_plan.done("A", Phase.SCHEDULED, "save", "", NOW)) == []
    last = agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)
    assert (runs(last), sends(last)) == (["stop"], [])
    assert sends(agent_plan.done("A", Phase.SCHEDULED, "stop", "", NOW)) == ["A"]


def test_a_failed_hook_ends_the_order() -> None:
    """What follows a required hook relies on it; one that is not required may fail."""
    agent_plan = plan(DRAIN, STOP)
    agent_plan.read(document(event()), NOW)
    assert agent_plan.done("A", Phase.SCHEDULED, "drain", "exit code 1", NOW)[1:] == []
    agent_plan = plan(hook("note", required=False), STOP)
    agent_plan.read(document(event()), NOW)
    assert runs(agent_plan.done("A", Phase.SCHEDULED, "note", NO_TIME_LEFT, NOW)) == ["stop"]


def test_no_hook_begins_after_the_start_of_its_event() -> None:
    """Its phase is over; those of the phase `started` have their own order."""
    flush, tell = hook("flush", Phase.STARTED), hook("tell", Phase.STARTED, order=1)
    agent_plan = plan(DRAIN, STOP, tell, flush)
    agent_plan.read(document(event()), NOW)
    assert runs(agent_plan.read(document(event(started=True)), NOW)) == ["flush"]
    assert runs(agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)) == []
    assert runs(agent_plan.done("A", Phase.STARTED, "flush", "", NOW)) == ["tell"]


def test_what_undoes_has_an_order_too() -> None:
    """A hook waits until the failed one before it has succeeded; a new event waits for neither."""
    agent_plan = plan(DRAIN, JOIN, UP)
    agent_plan.read(document(event()), NOW)
    agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)
    assert runs(agent_plan.read(document(), NOW)) == ["up"]
    assert runs(agent_plan.done("A", Phase.OVER, "up", "exit code 1", NOW)) == []
    assert runs(agent_plan.read(document(event("B")), NOW)) == ["drain"]
    assert runs(agent_plan.done("B", Phase.SCHEDULED, "drain", "", NOW)) == []
    assert runs(agent_plan.read(document(), NOW)) == ["up"]
    assert runs(agent_plan.done("B", Phase.OVER, "up", "", NOW)) == ["join"]


def test_a_restart_goes_on_with_the_next_hook() -> None:
    """The journal knows which are done."""
    agent_plan = restored(SEEN, BEGUN, DONE, hooks=(DRAIN, STOP))
    assert runs(agent_plan.resume(document(event()), NOW)) == ["stop"]
