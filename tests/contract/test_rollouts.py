"""Host rollouts by update domain: order, batches, pause, resume, abort, progress (E7)."""

import pytest

from fairwarning.core.commands import (
    AbortRollout,
    PauseRollout,
    Restart,
    ResumeRollout,
    RolloutCommand,
    StartRollout,
)
from fairwarning.core.decision import FactType
from fairwarning.core.model import EventStatus, ImpactKind, RolloutStatus
from fairwarning.core.rollout import progress
from tests.contract.units import DAY, HOUR, MINUTE
from tests.fixtures.fleet import NOON, FleetHarness

SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED
STEP = 15 * MINUTE + 9  # the notice and duration of a freeze


def _fleet(harness: FleetHarness, machines: int = 6, domains: int = 3) -> None:
    harness.availability_set(machines=machines, domains=domains)
    harness.poll("av")


def _roll(
    harness: FleetHarness, *scopes: str, batch: int = 10, kind: ImpactKind = ImpactKind.FREEZE
) -> None:
    harness.do(StartRollout(rollout="up", scopes=scopes or ("av",), batch=batch, kind=kind))


@pytest.mark.spec("E7")
def test_domains_one_after_the_other() -> None:
    """Domains are handled in order; the next is announced when the previous one is done."""
    with FleetHarness() as harness:
        _fleet(harness)
        _roll(harness)
        for first, second in (("av0", "av3"), ("av1", "av4"), ("av2", "av5")):
            assert harness.statuses("av") == {first: SCHEDULED, second: SCHEDULED}
            harness.advance(15 * MINUTE)
            assert harness.statuses("av") == {first: STARTED, second: STARTED}
            harness.advance(9)
        assert harness.events("av") == []
        assert harness.impact_times() == {f"av{n}": 15 * MINUTE + n % 3 * STEP for n in range(6)}
        assert harness.rollout("up").status is RolloutStatus.DONE
        assert harness.rollout("up").ended_at == NOON + 3 * STEP


@pytest.mark.spec("E7", "E10")
@pytest.mark.parametrize("domains", [1, 3, 12])
def test_domains_are_ordered_by_number(domains: int) -> None:
    """Domain 10 comes after domain 2, not before it."""
    with FleetHarness() as harness:
        harness.availability_set(machines=domains, domains=domains)
        _roll(harness)
        harness.advance(DAY)
        assert harness.impacted() == [f"av{n}" for n in range(domains)]


@pytest.mark.spec("E7")
def test_approvals_speed_a_rollout_up() -> None:
    """An approved step begins at once, so the next one begins earlier."""
    with FleetHarness() as harness:
        _fleet(harness)
        _roll(harness)
        for _ in range(3):
            harness.approve("av")
            harness.advance(9)
        assert harness.impact_times() == {f"av{n}": n % 3 * 9 for n in range(6)}
        assert harness.rollout("up").status is RolloutStatus.DONE


@pytest.mark.spec("E7")
@pytest.mark.parametrize("kind", [ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY])
def test_the_impact_of_a_rollout_can_be_chosen(kind: ImpactKind) -> None:
    """A rollout freezes, reboots or redeploys each machine once."""
    with FleetHarness() as harness:
        _fleet(harness)
        _roll(harness, kind=kind)
        harness.advance(2 * HOUR)
        assert sorted(harness.impacts()) == [(f"av{n}", kind) for n in range(6)]


@pytest.mark.spec("E7")
def test_progress_adds_up() -> None:
    """Progress is the share of finished machines; it is 1 at the end."""
    with FleetHarness() as harness:
        _fleet(harness)
        _roll(harness)
        assert progress(harness.rollout("up")) == 0
        for done in (2, 4, 6):
            harness.advance(STEP)
            assert progress(harness.rollout("up")) == done / 6
        assert (harness.rollout("up").done, harness.rollout("up").machines) == (6, 6)


@pytest.mark.spec("E7")
def test_a_pause_does_not_stop_announced_events() -> None:
    """A paused rollout begins no step but finishes the current one; a resume continues."""
    with FleetHarness() as harness:
        _fleet(harness)
        _roll(harness)
        harness.do(PauseRollout(rollout="up"))
        harness.advance(10 * HOUR)
        assert harness.impacted() == ["av0", "av3"]
        assert harness.events("av") == []
        assert harness.rollout("up").status is RolloutStatus.PAUSED
        harness.do(ResumeRollout(rollout="up"))
        assert harness.statuses("av") == {"av1": SCHEDULED, "av4": SCHEDULED}
        harness.advance(2 * STEP)
        assert harness.rollout("up").status is RolloutStatus.DONE
        assert progress(harness.rollout("up")) == 1


@pytest.mark.spec("E7")
def test_an_abort_cancels_scheduled_events() -> None:
    """An abort cancels Scheduled events at once, and no more machines are affected."""
    with FleetHarness() as harness:
        _fleet(harness)
        _roll(harness)
        harness.advance(STEP)
        harness.do(AbortRollout(rollout="up"))
        assert harness.events("av") == []
        harness.advance(HOUR)
        assert harness.impacted() == ["av0", "av3"]
        rollout = harness.rollout("up")
        assert (rollout.status, rollout.ended_at) == (RolloutStatus.ABORTED, NOON + STEP)
        harness.operate(Restart, "av", "av1")  # the machines are free again


@pytest.mark.spec("E7")
@pytest.mark.parametrize("paused", [False, True])
def test_an_abort_does_not_stop_started_events(paused: bool) -> None:
    """A Started step of an aborted rollout ends normally; then the rollout ends."""
    with FleetHarness() as harness:
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


@pytest.mark.spec("E7")
@pytest.mark.parametrize("batch", [1, 2])
def test_a_paused_rollout_can_be_aborted(batch: int) -> None:
    """A paused rollout without a running step ends at once when aborted."""
    with FleetHarness() as harness:
        harness.make_enabled("a", "b")
        _roll(harness, "a", "b", batch=batch)
        harness.do(PauseRollout(rollout="up"))
        harness.advance(HOUR)
        harness.do(AbortRollout(rollout="up"))
        assert harness.rollout("up").ended_at == NOON + HOUR
        assert len(harness.impacts()) == batch


@pytest.mark.spec("E7")
def test_invalid_rollout_commands_are_conflicts() -> None:
    """Only a paused rollout can be resumed; an ended one can be neither paused nor aborted."""
    with FleetHarness() as harness:
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


@pytest.mark.spec("E7", "E5")
def test_a_busy_machine_defers_its_step() -> None:
    """A step is retried until its busy machine is free."""
    with FleetHarness() as harness:
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
        assert harness.facts(FactType.STEP_DEFERRED) == [FactType.STEP_DEFERRED]


@pytest.mark.spec("E7")
def test_a_deferred_step_is_not_retried_during_a_pause() -> None:
    """A pause also stops the retries; a resume continues them."""
    with FleetHarness() as harness:
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
