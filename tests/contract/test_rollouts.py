"""Host rollouts by update domain: order, batches, pause, resume, abort, progress (E7)."""

import pytest

from fairwarning.core.commands import (
    AbortRollout,
    Degrade,
    Fail,
    Maintain,
    PauseRollout,
    Restart,
    ResumeRollout,
    RetryLane,
    RolloutCommand,
    StartRollout,
)
from fairwarning.core.decision import FactType
from fairwarning.core.model import EventStatus, ImpactKind, Lane, RolloutStatus
from fairwarning.core.record import changed
from fairwarning.core.rollout import progress, rollout_of_step
from tests.contract.units import DAY, HOUR, MINUTE
from tests.fixtures.fleet import NOON, FleetHarness

pytestmark = pytest.mark.spec("E7")

SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED
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


@pytest.mark.parametrize("kind", [ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY])
def test_the_impact_of_a_rollout_can_be_chosen(harness: FleetHarness, kind: ImpactKind) -> None:
    """A rollout freezes, reboots or redeploys each machine once."""
    _fleet(harness)
    _roll(harness, kind=kind)
    harness.advance(2 * HOUR)
    assert sorted(harness.impacts()) == [(f"av{n}", kind) for n in range(6)]


@pytest.mark.parametrize("paused", [False, True])
def test_an_abort_does_not_stop_started_events(harness: FleetHarness, paused: bool) -> None:
    """A Started step of an aborted rollout ends normally; then the rollout ends."""
    _fleet(harness)
    _roll(harness)
    if paused:
        harness.do(PauseRollout(rollout="up"))
    harness.approve("av")
    harness.do(AbortRollout(rollout="up"))
    assert harness.statuses("av") == {"av0": STARTED, "av3": STARTED}
    assert harness.rollout("up").ended_at is None
    harness.advance(9)
    assert harness.events("av") == []
    assert harness.rollout("up").ended_at == NOON + 9
    harness.advance(HOUR)
    assert harness.impacted() == ["av0", "av3"]
    assert harness.facts(FactType.ROLLOUT_ENDED) == [FactType.ROLLOUT_ENDED]


@pytest.mark.parametrize("batch", [1, 2])
def test_a_paused_rollout_can_be_aborted(harness: FleetHarness, batch: int) -> None:
    """A paused rollout without a running step ends at once when aborted."""
    harness.make_enabled("a", "b")
    _roll(harness, "a", "b", batch=batch)
    harness.do(PauseRollout(rollout="up"))
    harness.advance(HOUR)
    harness.do(AbortRollout(rollout="up"))
    assert harness.rollout("up").ended_at == NOON + HOUR
    assert len(harness.impacts()) == batch


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
    assert harness.facts(FactType.STEP_DEFERRED) == [FactType.STEP_DEFERRED]


@pytest.mark.spec("E5")
def test_a_busy_machine_defers_its_step(harness: FleetHarness) -> None:
    """A step is retried until its busy machine is free."""
    _fleet(harness)
    harness.operate(Restart, "av", "av1", name="restart")
    _roll(harness)
    harness.approve("av", "av0")
    harness.advance(9 + 60)
    assert harness.statuses("av") == {"av1": SCHEDULED}  # only the restart
    harness.approve("av", "av1")
    harness.advance(60)
    harness.advance(5 * MINUTE)  # retries become less frequent
    assert harness.statuses("av") == {"av1": SCHEDULED, "av4": SCHEDULED}
    harness.advance(2 * STEP)
    assert harness.rollout("up").status is RolloutStatus.DONE
    assert progress(harness.rollout("up")) == 1
    assert harness.impacted().count("av1") == 2
    deferred = [line for line in harness.journal() if line.line.fact.type is FactType.STEP_DEFERRED]
    assert [line.line.fact.machines for line in deferred] == [("av1",)]


def test_a_deferred_step_is_not_retried_during_a_pause(harness: FleetHarness) -> None:
    """A pause also stops the retries; a resume continues them."""
    _fleet(harness, machines=1)
    harness.operate(Restart, "av", "av0", name="restart")
    _roll(harness)
    harness.do(PauseRollout(rollout="up"))
    harness.approve("av")
    harness.advance(HOUR)
    assert harness.impacts() == [("av0", ImpactKind.REBOOT)]
    harness.do(ResumeRollout(rollout="up"))
    harness.advance(STEP)
    assert harness.impacts()[1:] == [("av0", ImpactKind.FREEZE)]
    assert harness.rollout("up").status is RolloutStatus.DONE


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
