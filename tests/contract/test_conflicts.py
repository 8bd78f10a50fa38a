"""One impact per machine at a time, which impacts replace others, and limits (E5, E6)."""

import pytest

from fairwarning.core.commands import (
    Configure,
    CreateScope,
    Deallocate,
    Delete,
    Evict,
    Maintain,
    Operate,
    Recommend,
    Redeploy,
    Reimage,
    Restart,
    Start,
    Stop,
)
from fairwarning.core.model import (
    EventStatus,
    EventType,
    Machine,
    OperationStatus,
    Priority,
    Rules,
    ScopeKind,
)
from tests.contract.units import MINUTE
from tests.fixtures.fleet import NOON, FleetHarness

WORK: list[type[Operate]] = [Restart, Redeploy, Maintain]
SCHEDULED = EventStatus.SCHEDULED


def _pair(harness: FleetHarness, terminate_seconds: int = 0) -> None:
    """Create and poll two Spot machines of one update domain."""
    machines = tuple(
        Machine(name=name, priority=Priority.SPOT, terminate_seconds=terminate_seconds)
        for name in ("a", "b")
    )
    harness.do(CreateScope(scope="av", kind=ScopeKind.AVAILABILITY_SET, machines=machines))
    harness.poll("av")


@pytest.mark.spec("E5")
@pytest.mark.parametrize("second", [*WORK, Reimage, Stop, Deallocate, Start])
def test_a_second_impact_is_refused_and_names_the_first(
    harness: FleetHarness, second: type[Operate]
) -> None:
    """While an impact is pending or running, another is a conflict that names it."""
    harness.make_enabled("vm")
    harness.operate(Restart, "vm", "vm", name="first")
    event = harness.only_event("vm").id
    again = second(scope="vm", operation="second", machines=("vm",))
    for _ in ("pending", "under way"):
        before = harness.scope("vm")
        error = harness.refusal(again)
        assert (error.code, error.status) == ("MachineBusy", 409)
        assert event in error.message
        assert harness.scope("vm") == before
        harness.approve("vm")
    harness.advance(60)
    harness.do(again)
    harness.advance(15 * MINUTE)
    assert harness.impacted() == ["vm", "vm"]


@pytest.mark.spec("E5")
def test_an_impact_without_notice_is_named_by_its_operation(harness: FleetHarness) -> None:
    """The conflict also names an impact that has no event."""
    harness.standalone()
    harness.operate(Reimage, "vm", "vm", name="wipe it")
    error = harness.refusal(Restart(scope="vm", operation="op", machines=("vm",)))
    assert "wipe it" in error.message


@pytest.mark.spec("E5")
@pytest.mark.parametrize("first", WORK)
@pytest.mark.parametrize(("leaving", "kind"), [(Delete, "delete"), (Evict, "evict")])
def test_a_delete_or_eviction_replaces_pending_work(
    harness: FleetHarness, first: type[Operate], leaving: type[Operate], kind: str
) -> None:
    """A delete or an eviction cancels a pending reboot, redeploy or freeze."""
    harness.standalone(priority=Priority.SPOT)
    harness.poll("vm")
    harness.operate(first, "vm", "vm", name="work")
    replaced = harness.only_event("vm").id
    harness.operate(leaving, "vm", "vm", name="leave")
    assert replaced not in harness.scope("vm").events
    assert harness.operation("work").status is OperationStatus.CANCELED
    harness.advance(60)
    assert harness.impacts() == [("vm", kind)]
    assert harness.succeeded("leave")


@pytest.mark.spec("E5", "E1")
@pytest.mark.parametrize("leaving", [Delete, Evict])
def test_the_rest_of_a_replaced_event_gets_new_notice(
    harness: FleetHarness, leaving: type[Operate]
) -> None:
    """If one of two machines leaves, the other gets a new event with its full notice."""
    _pair(harness)
    harness.operate(Restart, "av", "a", "b", name="restart")
    old = harness.only_event("av")
    harness.advance(10 * MINUTE + 0.5)
    harness.clock.ahead_seconds = lambda: 100  # type: ignore[method-assign]
    harness.operate(leaving, "av", "a", name="leave")
    new = harness.event_of("av", "b")
    assert new.id != old.id
    assert (old.clock_ahead, new.clock_ahead) == (0, 100)
    assert (new.type, new.status, new.resources) == (EventType.REBOOT, SCHEDULED, ("b",))
    assert new.not_before == NOON + 25 * MINUTE + 1
    harness.advance(new.not_before - 1 - harness.clock.now())
    assert "b" not in harness.impacted()
    harness.advance(1)
    assert harness.impact_times()["b"] == 25 * MINUTE + 1


@pytest.mark.spec("E6")
def test_the_limit_is_a_setting_and_counts_operations_of_users(harness: FleetHarness) -> None:
    """The limit counts user operations, not machines, events or platform operations."""
    harness.availability_set(machines=40, domains=3, user_operations=10)
    harness.poll("av")
    harness.operate(Maintain, "av", "av39", name="platform")
    harness.operate(Restart, "av", *(f"av{n}" for n in range(20)), name="many machines")
    for n in range(20, 29):
        harness.operate(Redeploy, "av", f"av{n}", name=f"op{n}")
    command = Restart(scope="av", operation="more", machines=("av30",))
    error = harness.refusal(command)
    assert (error.code, error.status, "10" in error.message) == ("TooManyOperations", 409, True)
    harness.operate(Maintain, "av", "av33", name="platform too")
    harness.do(Configure(scope="av", rules=Rules(user_operations=11)))
    harness.do(command)


@pytest.mark.spec("E5")
def test_a_recommendation_is_given_once(harness: FleetHarness) -> None:
    """A machine with a recommendation gets no second one while the first is active."""
    _pair(harness)
    harness.operate(Recommend, "av", "a", name="first")
    error = harness.refusal(Recommend(scope="av", operation="again", machines=("b", "a")))
    assert (error.code, error.status) == ("AlreadyAdvised", 409)
    assert harness.only_event("av").id in error.message
    harness.operate(Recommend, "av", "b", name="other")
    harness.operate(
        Restart, "av", "a", name="work"
    )  # a recommendation is no impact and blocks nothing


@pytest.mark.spec("E6")
def test_a_scope_holds_a_bounded_number_of_events(harness: FleetHarness) -> None:
    """The 257th event is refused, so a document stays bounded (ID8)."""
    machines = tuple(Machine(name=f"m{n}", priority=Priority.SPOT) for n in range(200))
    harness.do(CreateScope(scope="av", kind=ScopeKind.AVAILABILITY_SET, machines=machines))
    harness.poll("av")
    harness.operate(Recommend, "av", *(machine.name for machine in machines), name="advice")
    command = Evict(scope="av", operation="evict", machines=tuple(f"m{n}" for n in range(57)))
    error = harness.refusal(command)
    assert (error.code, error.status) == ("TooManyEvents", 409)
    harness.operate(Evict, "av", *(f"m{n}" for n in range(56)), name="evict")
    assert len(harness.events("av")) == 256
