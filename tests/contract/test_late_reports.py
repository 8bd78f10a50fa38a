"""The time limit of an impact, and drivers that report after it (E9)."""

from collections.abc import Iterator

import pytest

from fairwarning.core.commands import (
    Configure,
    Deallocate,
    Delete,
    DeleteSet,
    DropOperation,
    Fail,
    GiveUpImpact,
    Maintain,
    Remove,
    ReportImpact,
    Restart,
    Start,
    StartRollout,
    Stop,
    UpdateSet,
    UpgradeInstances,
    Write,
)
from fairwarning.core.decision import FactType
from fairwarning.core.model import (
    EventStatus,
    Impact,
    ImpactKind,
    Operation,
    OperationStatus,
    Power,
    Rules,
)
from fairwarning.machines.driver import Report
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


class _SilentDriver:
    """Reports nothing."""

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Do nothing."""


@pytest.fixture
def silent() -> Iterator[FleetHarness]:
    """A fleet with two machines whose driver has ten seconds, and reports nothing by itself."""
    with FleetHarness() as harness:
        harness.availability_set(machines=2, domains=1, impact_limit_seconds=10)
        harness.driver.inner = _SilentDriver()
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


def test_a_machine_that_was_deleted_late_ends_newer_work(harness: FleetHarness) -> None:
    """A restart was announced since: there is nothing left to restart."""
    harness.operate(Delete, "vm", "vm", name="delete")
    harness.advance(20)
    harness.operate(Restart, "vm", "vm", name="restart")
    harness.advance(10)
    assert not harness.exists("vm")
    assert harness.succeeded("delete")
    assert harness.operation("restart").status is OperationStatus.CANCELED


def test_what_waits_for_a_start_ends_with_a_machine_that_was_deleted_late(
    harness: FleetHarness,
) -> None:
    """Its user was starting it, and maintenance waited for that: neither is left."""
    harness.operate(Stop, "vm", "vm", name="off")
    harness.advance(HOUR)
    harness.do(Configure(scope="vm", rules=SHORT))
    harness.operate(Delete, "vm", "vm", name="delete")
    harness.advance(20)
    harness.operate(Maintain, "vm", "vm", name="host", kind=ImpactKind.REBOOT)
    harness.operate(Start, "vm", "vm", name="on")
    harness.advance(10)
    assert not harness.exists("vm")
    assert harness.succeeded("delete")
    assert harness.operation("host").status is OperationStatus.CANCELED


def test_a_machine_that_did_something_before_it_was_deleted_late_is_gone(
    silent: FleetHarness,
) -> None:
    """It was stopped since: that undoes no delete, so the machine is not shown any more (IL14)."""
    silent.operate(Delete, "av", "av0", name="delete")
    silent.advance(20)
    silent.operate(Stop, "av", "av0", name="stop")
    for impact in reversed(silent.driver.impacts):
        silent.do(ReportImpact(scope="av", machine="av0", impact=impact.id))
    assert silent.succeeded("delete", "stop")
    assert list(silent.machines("av")) == ["av1"]


def test_a_machine_that_was_deleted_late_ends_work_in_progress(silent: FleetHarness) -> None:
    """It was being stopped: there is nothing left to stop, and no report to wait for."""
    silent.operate(Delete, "av", "av0", name="delete")
    silent.advance(20)
    silent.operate(Stop, "av", "av0", name="stop")
    deleting = silent.driver.impacts[0]
    silent.do(ReportImpact(scope="av", machine="av0", impact=deleting.id))
    assert silent.succeeded("delete")
    assert silent.operation("stop").error == "the machine was deleted"
    assert list(silent.machines("av")) == ["av1"]


@pytest.mark.spec("C1")
@pytest.mark.parametrize("notice", [0, 300], ids=["in progress", "pending"])
def test_a_newer_delete_of_what_was_deleted_late_is_done(notice: int) -> None:
    """The first delete was given up, and the set is deleted again: both have succeeded (IL14)."""
    with FleetHarness() as harness:
        harness.make_scale_set(1, rules=Rules(impact_limit_seconds=10))
        harness.driver.inner = _SilentDriver()
        harness.delete_instances(0)
        harness.approve("web/0", "web_0")
        harness.advance(20)
        harness.do(UpdateSet(set="web", terminate_seconds=notice))
        harness.do(UpgradeInstances(set="web"))
        harness.do(DeleteSet(set="web", operation="again"))
        assert len(harness.driver.impacts) == (1 if notice else 2)
        first = harness.driver.impacts[0]
        harness.do(ReportImpact(scope="web/0", machine="web_0", impact=first.id))
        assert harness.succeeded("0", "again")
        assert not harness.exists("web/0")


@pytest.mark.parametrize("kind", [ReportImpact, GiveUpImpact])
def test_what_is_not_in_progress_cannot_end(
    harness: FleetHarness, kind: type[ReportImpact | GiveUpImpact]
) -> None:
    """No impact, a pending one, and one that has ended meanwhile: drivers repeat themselves."""

    def changes_nothing(impact: str) -> bool:
        before = harness.scope("vm")
        harness.do(kind(scope="vm", machine="vm", impact=impact))
        return harness.scope("vm") == before

    assert changes_nothing("none")
    harness.operate(Restart, "vm", "vm")
    assert changes_nothing(harness.scope("vm").impacts["vm"].id)
    harness.approve("vm")
    assert changes_nothing("another")
    assert harness.scope("vm").impacts


def test_a_late_report_of_a_dropped_operation(harness: FleetHarness) -> None:
    """It changes neither the operation, which is gone, nor another one of that name (IR1)."""
    for started_again in (False, True):
        harness.operate(Restart, "vm", "vm")
        harness.approve("vm")
        harness.advance(20)
        harness.do(DropOperation(operation="op", before=harness.clock.now() + 1))
        if started_again:
            harness.operate(Restart, "vm", "vm")
        harness.advance(40)
        operation = harness.run(harness.fleet.reader.read(Operation, "op"))
        if started_again:
            assert operation
            assert operation.status is OperationStatus.RUNNING
            assert (operation.done, operation.failed) == (0, 0)
        else:
            assert operation is None
    assert harness.facts(FactType.SET_ASIDE) == []


def test_what_is_removed_after_late_reports(silent: FleetHarness) -> None:
    """A group stays until both of its machines are gone, however late the reports come."""
    delete = Delete(scope="av", operation="op", machines=("av0", "av1"))
    silent.do(Write(resource="group::rg", name="rg", body="{}"))
    silent.do(Remove(resource="group::rg", operation="op", follow=(delete,)))
    silent.advance(20)
    for impact, status in zip(silent.driver.impacts, ("Failed", "Succeeded"), strict=True):
        assert silent.resource("group::rg")
        silent.do(ReportImpact(scope="av", machine=impact.machine, impact=impact.id))
        assert silent.operation("op").status == status
    assert silent.resource("group::rg") is None


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


@pytest.mark.parametrize("ended", [True, False], ids=["ended", "in progress"])
def test_a_late_report_overrules_no_later_action(harness: FleetHarness, *, ended: bool) -> None:
    """A machine that was started since is not shown as deallocated (IL14)."""
    harness.driver.inner = _SilentDriver()
    harness.operate(Deallocate, "vm", "vm", name="down")
    harness.advance(20)
    assert harness.operation("down").status is OperationStatus.FAILED
    harness.operate(Start, "vm", "vm", name="up")
    down, up = harness.driver.impacts
    for impact in (up, down) if ended else (down, up):
        harness.do(ReportImpact(scope="vm", machine="vm", impact=impact.id))
        assert harness.machines("vm")["vm"].power is Power.RUNNING
    assert harness.succeeded("down", "up")
