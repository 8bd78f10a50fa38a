"""The time limit of an impact, and drivers that report after it (E9)."""

from collections.abc import Iterator

import pytest

from fairwarning.core.commands import (
    Configure,
    Delete,
    Fail,
    Maintain,
    Restart,
    StartRollout,
    Stop,
)
from fairwarning.core.decision import FactType
from fairwarning.core.model import EventStatus, ImpactKind, OperationStatus, Power, Rules
from fairwarning.store.memory import MemoryStore
from tests.contract.units import HOUR, MINUTE
from tests.fixtures.fleet import NOON, FleetHarness

pytestmark = pytest.mark.spec("E9")

SHORT = Rules(impact_limit_seconds=20)  # the simulated impacts take longer


@pytest.fixture
def harness() -> Iterator[FleetHarness]:
    """A fleet with a machine whose driver has less time than it needs."""
    with FleetHarness() as harness:
        harness.standalone(rules=SHORT)
        harness.poll("vm")
        yield harness


def _ended(harness: FleetHarness) -> list[str]:
    return [
        entry.line.fact.detail
        for entry in harness.journal()
        if entry.line.fact.type in {FactType.OPERATION_ENDED, FactType.OPERATION_CORRECTED}
    ]


def test_a_late_success_is_believed(harness: FleetHarness) -> None:
    """The operation failed by the limit; the driver then reports success, and it succeeds."""
    harness.operate(Restart, "vm", "vm")
    harness.approve("vm")
    harness.advance(20)
    assert harness.operation("op").status is OperationStatus.FAILED
    assert harness.events("vm") == []
    harness.advance(40)
    operation = harness.operation("op")
    assert (operation.status, operation.done, operation.failed) == ("Succeeded", 1, 0)
    assert operation.error == ""
    assert _ended(harness) == ["Failed: the driver did not report in time", "Succeeded"]
    assert not harness.scope("vm").given_up


def test_a_late_failure_stays_a_failure(harness: FleetHarness) -> None:
    """A late report of a failure changes nothing but what is known."""
    harness.driver.fail = "no space left"
    harness.operate(Restart, "vm", "vm")
    harness.approve("vm")
    harness.advance(60)
    assert harness.operation("op").status is OperationStatus.FAILED
    assert not harness.scope("vm").given_up
    assert harness.facts(FactType.REPORTED_LATE) == [FactType.REPORTED_LATE]


def test_a_machine_that_was_deleted_late_is_gone(harness: FleetHarness) -> None:
    """The fleet never shows a machine that its driver has deleted."""
    harness.operate(Delete, "vm", "vm")
    harness.advance(20)
    assert harness.operation("op").status is OperationStatus.FAILED
    harness.advance(10)
    assert harness.succeeded("op")
    assert not harness.exists("vm")


def test_a_machine_that_was_deleted_late_ends_newer_work(harness: FleetHarness) -> None:
    """A restart was announced since: there is nothing left to restart."""
    harness.operate(Delete, "vm", "vm", name="delete")
    harness.advance(20)
    harness.operate(Restart, "vm", "vm", name="restart")
    harness.advance(10)
    assert not harness.exists("vm")
    assert harness.succeeded("delete")
    assert harness.operation("restart").status is OperationStatus.CANCELED


def test_a_late_stop_changes_the_power_state(harness: FleetHarness) -> None:
    """The power state is what the driver did."""
    harness.do(Configure(scope="vm", rules=Rules(impact_limit_seconds=5)))
    harness.operate(Stop, "vm", "vm")
    harness.advance(5)
    assert harness.machines("vm")["vm"].power is Power.RUNNING
    harness.advance(10)
    assert harness.machines("vm")["vm"].power is Power.STOPPED


def test_a_late_report_after_a_restart_of_the_fleet_entry() -> None:
    """What was given up is stored: a report that arrives after a restart is believed too."""
    with FleetHarness() as harness:
        harness.standalone(rules=SHORT)
        harness.poll("vm")
        harness.operate(Restart, "vm", "vm")
        harness.approve("vm")
        harness.advance(20)
        (impact,) = harness.driver.impacts
        harness.restart()
        assert list(harness.scope("vm").given_up) == [impact.id]
        assert harness.driver.impacts == [], "it is not carried out again"


def test_the_limit_is_never_shorter_than_the_announced_duration(harness: FleetHarness) -> None:
    """A freeze that is announced with ten minutes has ten minutes, whatever the limit is."""
    harness.operate(Maintain, "vm", "vm", kind=ImpactKind.FREEZE, duration_seconds=10 * MINUTE)
    harness.approve("vm")
    harness.advance(10 * MINUTE - 1)
    assert harness.statuses("vm") == {"vm": EventStatus.STARTED}
    harness.advance(1)
    assert harness.succeeded("op")


def test_time_without_a_service_is_not_the_drivers() -> None:
    """The service was down for longer than the limit: the driver gets the whole limit again."""
    store = MemoryStore()
    with FleetHarness(store) as harness:
        harness.standalone(rules=Rules(impact_limit_seconds=120))
        harness.poll("vm")
        harness.operate(Restart, "vm", "vm")
        harness.approve("vm")
    with FleetHarness(store, start=NOON + HOUR) as harness:
        harness.advance(59)
        assert harness.statuses("vm") == {"vm": EventStatus.STARTED}
        harness.advance(1)
        assert harness.succeeded("op")


def test_a_rollout_counts_a_late_success() -> None:
    """A rollout goes on after the limit, and counts the machine as done when it was done."""
    with FleetHarness() as harness:
        harness.availability_set(machines=2, domains=2, impact_limit_seconds=30)
        harness.do(StartRollout(rollout="up", scopes=("av",), kind=ImpactKind.REBOOT))
        harness.advance(30)
        assert harness.rollout("up").failed == 1
        harness.advance(30)
        assert (harness.rollout("up").done, harness.rollout("up").failed) == (1, 1)
        harness.advance(30)
        assert (harness.rollout("up").done, harness.rollout("up").failed) == (2, 0)


def test_an_interrupted_reboot_that_was_done_after_all() -> None:
    """Hardware failed during a reboot that the driver then reports as done."""
    with FleetHarness() as harness:
        harness.make_enabled("vm")
        harness.operate(Restart, "vm", "vm", name="reboot")
        harness.approve("vm")
        harness.operate(Fail, "vm", "vm", name="failure")
        assert harness.operation("reboot").status is OperationStatus.FAILED
        harness.advance(MINUTE)
        assert harness.succeeded("reboot")
        harness.advance(HOUR)
        assert harness.succeeded("failure")


def test_a_failed_impact_is_not_called_carried_out() -> None:
    """The journal says of an ended event how many of its machines failed."""
    with FleetHarness() as harness:
        harness.availability_set(machines=2, domains=1)
        harness.poll("av")
        harness.driver.failing["av1"] = "it did not boot"
        harness.operate(Restart, "av", "av0", "av1")
        harness.approve("av")
        harness.advance(MINUTE)
        (detail,) = [
            entry.line.fact.detail
            for entry in harness.journal()
            if entry.line.fact.type is FactType.ENDED
        ]
        assert detail == "failed for 1 of 2 machines"
