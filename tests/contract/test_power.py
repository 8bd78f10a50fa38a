"""The power state of a machine is its user's, and so is the choice to start it again (E5)."""

from collections.abc import Iterator
from typing import Any

import pytest

from fairwarning.core.commands import (
    Command,
    CreateScope,
    Deallocate,
    Degrade,
    Fail,
    Maintain,
    Operate,
    Redeploy,
    Restart,
    Start,
    StartRollout,
    Stop,
)
from fairwarning.core.model import (
    EventStatus,
    ImpactKind,
    Machine,
    OperationStatus,
    Power,
    ScopeKind,
)
from tests.contract.units import DAY, HOUR, MINUTE
from tests.fixtures.fleet import FleetHarness

pytestmark = pytest.mark.spec("E5")


@pytest.fixture
def harness() -> Iterator[FleetHarness]:
    """A fleet with a machine that polls."""
    with FleetHarness() as harness:
        harness.make_enabled("vm", host="h1")
        yield harness


def _off(harness: FleetHarness, kind: type[Operate] = Stop) -> None:
    harness.operate(kind, "vm", "vm", name="off")
    harness.advance(HOUR)


def _power(harness: FleetHarness) -> Power:
    return harness.machines("vm")["vm"].power


def _of_platform(kind: ImpactKind) -> Command:
    return Maintain(scope="vm", machines=("vm",), operation="host", kind=kind)


WORK: dict[str, Command] = {
    "freeze": _of_platform(ImpactKind.FREEZE),
    "reboot": _of_platform(ImpactKind.REBOOT),
    "redeploy": _of_platform(ImpactKind.REDEPLOY),
    "failure": Fail(scope="vm", machines=("vm",), operation="host"),
    "degraded": Degrade(scope="vm", machines=("vm",), operation="host"),
    "rollout": StartRollout(rollout="host", scopes=("vm",), kind=ImpactKind.REBOOT),
}


@pytest.mark.parametrize("polled", [True, False], ids=["polled", "not polled"])
@pytest.mark.parametrize("work", WORK)
def test_the_platform_starts_no_stopped_machine(work: str, *, polled: bool) -> None:
    """A machine that its user stopped stays stopped, and its driver is told nothing."""
    with FleetHarness() as harness:
        harness.standalone(host="h1")
        if polled:
            harness.poll("vm")
        _off(harness)
        before = harness.impacts()
        harness.do(WORK[work])
        harness.advance(HOUR)
        assert _power(harness) is Power.STOPPED
        assert harness.impacts() == before
        assert harness.events("vm") == []
        name = "host/0/0" if work == "rollout" else "host"
        operation = harness.operation(name)
        assert (operation.status, operation.planned) == (OperationStatus.SUCCEEDED, 1)


@pytest.mark.parametrize("kind", [Start, Restart])
def test_a_start_from_stopped_leaves_the_event_of_the_platform(
    harness: FleetHarness, kind: type[Operate]
) -> None:
    """The machine runs at once; the degraded hardware is left later, as announced."""
    _off(harness)
    harness.do(WORK["degraded"])
    event = harness.only_event("vm")
    harness.operate(kind, "vm", "vm", name="on")
    assert harness.only_event("vm") == event
    harness.advance(MINUTE)
    assert _power(harness) is Power.RUNNING
    assert harness.operation("on").status is OperationStatus.SUCCEEDED
    assert harness.only_event("vm").status is EventStatus.SCHEDULED
    harness.advance(DAY)
    assert harness.impacts()[-1] == ("vm", ImpactKind.REDEPLOY)
    assert harness.operation("host").status is OperationStatus.SUCCEEDED


def test_an_event_that_starts_during_a_start(harness: FleetHarness) -> None:
    """The platform's impact waits until the user's start has ended (E5: one at a time)."""
    _off(harness)
    harness.do(WORK["reboot"])
    harness.advance(15 * MINUTE - 1)
    harness.operate(Start, "vm", "vm", name="on")
    harness.advance(1)
    assert harness.only_event("vm").status is EventStatus.STARTED
    assert harness.impacts()[-1] == ("vm", ImpactKind.START)
    harness.advance(HOUR)
    assert harness.impacts()[-2:] == [("vm", ImpactKind.START), ("vm", ImpactKind.REBOOT)]
    assert harness.events("vm") == []


def test_an_event_that_is_displaced_during_a_start(harness: FleetHarness) -> None:
    """What is left of the event still waits for the start."""
    harness.availability_set(machines=2, domains=1)
    harness.poll("av")
    harness.operate(Maintain, "av", "av0", "av1", name="host")
    harness.operate(Start, "av", "av0", name="on")
    harness.operate(Stop, "av", "av1", name="off")
    harness.advance(HOUR)
    assert harness.impacts()[-1] == ("av0", ImpactKind.FREEZE)
    assert harness.operation("on").status is OperationStatus.SUCCEEDED


def test_a_start_from_deallocated_places_the_machine_anew(harness: FleetHarness) -> None:
    """The maintenance of its old host no longer concerns it."""
    harness.do(WORK["degraded"])
    _off(harness, Deallocate)
    assert harness.events("vm") == []
    harness.operate(Start, "vm", "vm", name="on")
    harness.advance(MINUTE)
    assert _power(harness) is Power.RUNNING
    assert harness.machines("vm")["vm"].host not in {"", "h1"}


@pytest.mark.parametrize("work", ["redeploy", "failure", "degraded", "of its user"])
def test_a_redeploy_moves_the_machine(harness: FleetHarness, work: str) -> None:
    """The maintenance of its old host does not affect it again."""
    own = Redeploy(scope="vm", machines=("vm",), operation="host")
    harness.do(own if work == "of its user" else WORK[work])
    harness.advance(DAY)
    assert harness.machines("vm")["vm"].host.startswith("spare-")
    refused = harness.refusal(
        StartRollout(rollout="up", scopes=("vm",), by_host=True, hosts=("h1",))
    )
    assert refused.code == "NothingToDo"


@pytest.mark.spec("E10")
@pytest.mark.parametrize("settings", [{"by_host": True}, {"hosts": ("h1", "h2")}])
def test_a_machine_that_leaves_its_host_before_its_turn(settings: dict[str, Any]) -> None:
    """A rollout over hosts that has begun already does not follow it to another one."""
    with FleetHarness() as harness:
        machines = tuple(Machine(name=f"av{n}", host=f"h{n}", update_domain=n) for n in (1, 2))
        harness.do(CreateScope(scope="av", kind=ScopeKind.AVAILABILITY_SET, machines=machines))
        harness.poll("av")
        harness.do(StartRollout(rollout="up", scopes=("av",), **settings))
        harness.operate(Redeploy, "av", "av2", name="leave")
        harness.advance(DAY)
        assert sorted(harness.impacts()) == [
            ("av1", ImpactKind.FREEZE),
            ("av2", ImpactKind.REDEPLOY),
        ]
        assert (harness.rollout("up").done, harness.rollout("up").skipped) == (1, 1)
