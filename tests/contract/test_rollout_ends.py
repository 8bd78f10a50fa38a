"""Rollouts while the fleet changes, and over many scopes (E7, E10)."""

import pytest

from fairwarning.core.commands import (
    AddMachines,
    CreateScope,
    Deallocate,
    Delete,
    Evict,
    Maintain,
    Recommend,
    Restart,
    StartRollout,
)
from fairwarning.core.decision import FactType
from fairwarning.core.model import (
    EventStatus,
    Machine,
    OperationStatus,
    Priority,
    RolloutStatus,
    ScopeKind,
)
from fairwarning.core.rollout import progress
from tests.contract.units import HOUR, MINUTE
from tests.fixtures.fleet import NOON, FleetHarness

pytestmark = pytest.mark.spec("E7")

SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED
STEP = 15 * MINUTE + 9


def _roll(harness: FleetHarness, *scopes: str, batch: int = 10) -> None:
    harness.do(StartRollout(rollout="up", scopes=scopes, batch=batch))


@pytest.mark.parametrize("gone", ["av1", "av4", "av1 av4"])
@pytest.mark.parametrize("how", [Delete, Deallocate])
def test_a_deleted_machine_is_skipped(
    harness: FleetHarness, gone: str, how: type[Delete] | type[Deallocate]
) -> None:
    """A machine that is deleted or deallocated before its turn counts as skipped."""
    harness.availability_set()
    harness.poll("av")
    _roll(harness, "av")
    harness.operate(how, "av", *gone.split())
    harness.advance(2 * HOUR)
    rollout = harness.rollout("up")
    assert rollout.status is RolloutStatus.DONE
    assert (rollout.done, rollout.skipped) == (6 - len(gone.split()), len(gone.split()))
    assert progress(rollout) == 1


@pytest.mark.spec("E5")
def test_a_machine_deleted_while_its_step_is_scheduled(harness: FleetHarness) -> None:
    """The rest of the step gets new notice and comes before the next domain."""
    harness.availability_set()
    harness.poll("av")
    _roll(harness, "av")
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
    harness.availability_set()
    harness.poll("av")
    _roll(harness, "av")
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


def test_a_deleted_scope_is_skipped(harness: FleetHarness) -> None:
    """A deleted scope is skipped, and the rollout still ends."""
    harness.make_enabled("a", "b", "c")
    _roll(harness, "a", "b", "c", batch=1)
    harness.operate(Delete, "b", "b")
    harness.advance(HOUR)
    assert not harness.exists("b")
    assert harness.rollout("up").status is RolloutStatus.DONE
    assert progress(harness.rollout("up")) == 1


def test_a_step_cancelled_by_hand_counts_as_skipped(harness: FleetHarness) -> None:
    """Cancelling an event of a rollout skips its machines; the rollout continues."""
    harness.availability_set()
    harness.poll("av")
    _roll(harness, "av")
    harness.cancel("av", "av0")
    assert harness.statuses("av") == {"av1": SCHEDULED, "av4": SCHEDULED}
    harness.advance(2 * STEP)
    rollout = harness.rollout("up")
    assert (rollout.status, rollout.done, rollout.skipped) == (RolloutStatus.DONE, 4, 2)
    assert harness.operation("up/0/0").status is OperationStatus.CANCELED


def test_a_failed_impact_counts_as_failed(harness: FleetHarness) -> None:
    """A failed impact is counted, and the rollout continues."""
    harness.availability_set()
    harness.poll("av")
    _roll(harness, "av")
    harness.driver.fail = "host does not answer"
    harness.advance(STEP)
    harness.driver.fail = ""
    harness.advance(2 * STEP)
    rollout = harness.rollout("up")
    assert (rollout.status, rollout.done, rollout.failed) == (RolloutStatus.DONE, 4, 2)
    assert progress(rollout) == 1


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


@pytest.mark.spec("M15")
def test_disabled_scopes_are_handled_without_notice(harness: FleetHarness) -> None:
    """In a disabled scope, domains are affected without notice, still one after the other."""
    harness.availability_set()
    _roll(harness, "av")
    assert harness.impacted() == ["av0", "av3"]
    harness.advance(9)
    assert harness.impacted() == ["av0", "av3", "av1", "av4"]
    harness.advance(18)
    assert harness.rollout("up").ended_at == NOON + 27


def test_a_rollout_over_a_scale_set_of_two_groups(harness: FleetHarness) -> None:
    """Each placement group is a lane of its own; every machine is affected once."""
    harness.make_scale_set(120)
    _roll(harness, "web/0", "web/1")
    assert len(harness.statuses("web/0")) == 20
    assert len(harness.statuses("web/1")) == 4
    harness.advance(5 * STEP)
    assert sorted(harness.impacted()) == sorted(f"web_{n}" for n in range(120))
    assert harness.rollout("up").status is RolloutStatus.DONE


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


def test_operations_cannot_have_the_name_of_a_step(harness: FleetHarness) -> None:
    """No operation can have the name of a rollout's step."""
    harness.make_enabled("vm")
    command = Restart(scope="vm", operation="up/0/0", machines=("vm",))
    assert harness.refusal(command).code == "BadCommand"
    _roll(harness, "vm")
    harness.advance(STEP)
    assert harness.impacted() == ["vm"]
    assert harness.rollout("up").status is RolloutStatus.DONE


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
