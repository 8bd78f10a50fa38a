"""Rollouts: order, batches, pause, abort, progress, and what changes meanwhile (E7, E10)."""

import pytest

from fairwarning.core import limits
from fairwarning.core.commands import (
    AbortRollout,
    AddMachines,
    CreateScope,
    Deallocate,
    Degrade,
    Delete,
    Evict,
    Fail,
    Maintain,
    PauseRollout,
    Recommend,
    Restart,
    ResumeRollout,
    RetryLane,
    RolloutCommand,
    StartRollout,
)
from fairwarning.core.decision import FactType
from fairwarning.core.model import (
    EventStatus,
    EventType,
    ImpactKind,
    Lane,
    Machine,
    Priority,
    RolloutStatus,
    ScopeKind,
)
from fairwarning.core.record import changed
from fairwarning.core.rollout import progress, rollout_of_step
from tests.contract.units import DAY, HOUR, MINUTE
from tests.fixtures.fleet import NOON, FleetHarness

pytestmark = pytest.mark.spec("E7")

SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED


def test_a_step_waits_for_a_scope_without_room_for_its_event(
    harness: FleetHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is announced once another event has ended."""
    monkeypatch.setattr(limits, "SCOPE_EVENTS", 1)
    harness.availability_set(machines=2, domains=2)
    harness.poll("av")
    harness.operate(Restart, "av", "av0")
    harness.do(StartRollout(rollout="up", scopes=("av",), by_host=True, hosts=("av-host1",)))
    assert [event.type for event in harness.events("av")] == [EventType.REBOOT]
    harness.approve("av")
    harness.advance(2 * MINUTE)
    assert [event.type for event in harness.events("av")] == [EventType.FREEZE]


STEP = 15 * MINUTE + 9  # the notice and duration of a freeze


def _fleet(harness: FleetHarness, machines: int = 6, domains: int = 3) -> None:
    harness.availability_set(machines=machines, domains=domains)
    harness.poll("av")


def _roll(
    harness: FleetHarness, *scopes: str, batch: int = 10, kind: ImpactKind = ImpactKind.FREEZE
) -> None:
    harness.do(StartRollout(rollout="up", scopes=scopes or ("av",), batch=batch, kind=kind))


@pytest.mark.spec("E10")
@pytest.mark.parametrize("domains", [1, 3, 12])
def test_domains_are_ordered_by_number(harness: FleetHarness, domains: int) -> None:
    """Domain 10 comes after domain 2, not before it."""
    harness.availability_set(machines=domains, domains=domains)
    _roll(harness)
    harness.advance(DAY)
    assert harness.impacted() == [f"av{n}" for n in range(domains)]


def test_invalid_rollout_commands_are_conflicts(harness: FleetHarness) -> None:
    """Only a paused rollout can be resumed; an ended one can be neither paused nor aborted."""
    _fleet(harness)
    _roll(harness)
    assert _conflict(harness, ResumeRollout(rollout="up"))
    assert harness.refusal(StartRollout(rollout="up", scopes=("av",))).status == 409
    harness.do(PauseRollout(rollout="up"))
    assert _conflict(harness, PauseRollout(rollout="up"))
    harness.do(ResumeRollout(rollout="up"))
    harness.advance(HOUR)
    for kind in (PauseRollout, ResumeRollout, AbortRollout):
        assert _conflict(harness, kind(rollout="up"))
        assert harness.refusal(kind(rollout="other")).status == 404


def _conflict(harness: FleetHarness, command: RolloutCommand) -> bool:
    before = harness.rollout("up")
    error = harness.refusal(command)
    return (error.code, error.status) == ("RolloutState", 409) and harness.rollout("up") == before


@pytest.mark.parametrize(
    ("operation", "rollout"),
    [("up/0/12", "up"), ("up", ""), ("up/0", ""), ("up/x/1", ""), ("up/0/x", ""), ("up/0/1/2", "")],
)
def test_the_rollout_of_a_step(operation: str, rollout: str) -> None:
    """The id of a step has the rollout, the lane and the position."""
    assert rollout_of_step(operation) == rollout


def test_a_step_is_tried_less_and_less_often(harness: FleetHarness) -> None:
    """While its machine is busy: after 30 seconds, then twice as long, up to 15 minutes."""
    harness.make_enabled("vm")
    harness.do(
        Degrade(scope="vm", machines=("vm",), operation="hardware", not_before=int(NOON) + DAY)
    )
    _roll(harness, "vm")
    tries = []
    for _ in range(7):
        lane = harness.run(harness.fleet.reader.read(Lane, "up/0"))
        assert lane is not None
        assert lane.retry_at is not None
        tries.append(lane.retry_at - harness.clock.now())
        harness.do(RetryLane(lane="up/0"))  # too early
        assert harness.run(harness.fleet.reader.read(Lane, "up/0")) == lane
        harness.advance(tries[-1])
    assert tries == [30, 60, 120, 240, 480, 900, 900]
    facts = [entry.line.fact for entry in harness.journal()]
    deferred = [fact.machines for fact in facts if fact.type is FactType.STEP_DEFERRED]
    assert deferred == [("vm",)]


@pytest.mark.spec("E7")
def test_two_rollouts_over_one_scope(harness: FleetHarness) -> None:
    """They never work on two of its update domains at once; the second says what it waits for."""
    harness.availability_set(machines=4, domains=2)
    harness.poll("av")
    for name in ("one", "two"):
        harness.do(StartRollout(rollout=name, scopes=("av",), kind=ImpactKind.REBOOT))
    seen = set()
    for _ in range(200):
        under_way = {
            harness.machines("av")[machine].update_domain
            for event in harness.events("av")
            for machine in event.resources
        }
        assert len(under_way) <= 1
        seen |= under_way
        harness.advance(MINUTE)
    assert seen == {0, 1}
    assert {harness.rollout(name).status for name in ("one", "two")} == {RolloutStatus.DONE}


@pytest.mark.spec("E7")
@pytest.mark.parametrize("polled", [True, False], ids=["polled", "not polled"])
def test_maintenance_of_two_update_domains_is_refused(
    harness: FleetHarness, *, polled: bool
) -> None:
    """Whether one command asks for both, or another one is under way; hardware may still fail."""
    harness.availability_set(machines=4, domains=2)
    if polled:
        harness.poll("av")
    both = Maintain(scope="av", machines=("av0", "av1"), operation="both")
    assert harness.refusal(both).code == "OtherUpdateDomain"
    rebooted = changed(both, kind=ImpactKind.REBOOT, migration=True)  # that is no migration
    assert harness.refusal(rebooted).code == "OtherUpdateDomain"
    harness.operate(Maintain, "av", "av0", name="first")
    second = Maintain(scope="av", machines=("av1",), operation="second")
    assert "not 0 and 1" in harness.refusal(second).message
    harness.operate(Fail, "av", "av1", name="failure")
    harness.advance(HOUR)
    harness.do(second)


@pytest.mark.parametrize("gone", ["av1", "av4", "av1 av4"])
@pytest.mark.parametrize("how", [Delete, Deallocate])
def test_a_deleted_machine_is_skipped(
    harness: FleetHarness, gone: str, how: type[Delete] | type[Deallocate]
) -> None:
    """A machine that is deleted or deallocated before its turn counts as skipped."""
    _fleet(harness)
    _roll(harness)
    harness.operate(how, "av", *gone.split())
    harness.advance(2 * HOUR)
    rollout = harness.rollout("up")
    assert rollout.status is RolloutStatus.DONE
    assert (rollout.done, rollout.skipped) == (6 - len(gone.split()), len(gone.split()))
    assert progress(rollout) == 1


@pytest.mark.spec("E5")
def test_a_machine_deleted_while_its_step_is_scheduled(harness: FleetHarness) -> None:
    """The rest of the step gets new notice and comes before the next domain."""
    _fleet(harness)
    _roll(harness)
    harness.advance(5 * MINUTE)
    harness.operate(Delete, "av", "av0")
    assert harness.statuses("av") == {"av3": SCHEDULED}
    harness.advance(15 * MINUTE)
    assert harness.impact_times()["av3"] == 20 * MINUTE
    harness.advance(9)
    assert harness.statuses("av") == {"av1": SCHEDULED, "av4": SCHEDULED}
    harness.advance(2 * STEP)
    rollout = harness.rollout("up")
    assert (rollout.status, rollout.done, rollout.skipped) == (RolloutStatus.DONE, 5, 1)


@pytest.mark.parametrize(("domain", "done"), [(1, 6), (2, 5)])
def test_a_machine_that_is_created_again(harness: FleetHarness, domain: int, done: int) -> None:
    """IC6: in another update domain it is skipped, so that no two domains start at once."""
    _fleet(harness)
    _roll(harness)
    harness.operate(Delete, "av", "av1")
    harness.advance(MINUTE)
    again = Machine(name="av1", update_domain=domain)
    harness.do(AddMachines(scope="av", machines=(again,)))
    harness.advance(STEP)
    assert set(harness.statuses("av")) == ({"av1", "av4"} if domain == 1 else {"av4"})
    harness.advance(2 * STEP)
    rollout = harness.rollout("up")
    assert (rollout.status, rollout.done) == (RolloutStatus.DONE, done)
    assert rollout.done + rollout.skipped == 6


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_batch_limits_the_scopes_worked_on_at_once(harness: FleetHarness, batch: int) -> None:
    """At most `batch` scopes run at once; the next one begins when one has ended."""
    scopes = [f"vm{n}" for n in range(5)]
    harness.make_enabled(*scopes)
    _roll(harness, *scopes, batch=batch)
    for first in range(0, 5, batch):
        active = [scope for scope in scopes if harness.events(scope)]
        assert active == scopes[first : first + batch]
        harness.advance(STEP)
    assert harness.rollout("up").status is RolloutStatus.DONE
    assert progress(harness.rollout("up")) == 1


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (StartRollout(rollout="up", scopes=("vm", "nowhere")), "UnknownScope"),
        (StartRollout(rollout="up", scopes=("vm",), by_host=True), "NoHost"),
        (StartRollout(rollout="up", scopes=("vm",), hosts=("other",)), "NothingToDo"),
    ],
)
def test_invalid_rollouts(harness: FleetHarness, command: StartRollout, code: str) -> None:
    """A rollout over nothing, or over machines without a host, is refused before it begins."""
    harness.make_enabled("vm")
    assert harness.refusal(command).code == code
    assert harness.events("vm") == []
    assert harness.facts(FactType.ROLLOUT_STARTED) == []


@pytest.mark.spec("E2")
def test_a_step_in_a_full_scope_is_retried(harness: FleetHarness) -> None:
    """A scope with the maximum number of events defers its step, but delays no other scope."""
    _fill_up(harness)
    harness.make_enabled("vm")
    harness.operate(Restart, "vm", "vm", name="elsewhere")
    harness.advance(15 * MINUTE)
    assert harness.statuses("vm") == {"vm": STARTED}
    harness.advance(HOUR)
    assert harness.rollout("up").status is RolloutStatus.DONE


def _fill_up(harness: FleetHarness) -> None:
    """Make a rollout wait for m1's freeze; when that ends, the scope has 256 events."""
    machines = tuple(
        Machine(name=f"m{n}", priority=Priority.SPOT, update_domain=min(n, 1)) for n in range(200)
    )
    harness.do(CreateScope(scope="av", kind=ScopeKind.AVAILABILITY_SET, machines=machines))
    harness.poll("av")
    harness.operate(Maintain, "av", "m0", name="freeze")
    _roll(harness, "av")  # m0 is busy: retried in half a minute
    harness.approve("av", "m0")
    harness.operate(Recommend, "av", *(machine.name for machine in machines), name="advice")
    harness.advance(10)
    harness.operate(Evict, "av", *(f"m{n}" for n in range(100, 156)), name="evict")
    assert len(harness.events("av")) == 256
    harness.advance(20)
