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
from fairwarning.core.decision import Did
from fairwarning.core.model import EventStatus, ImpactKind, RolloutStatus
from fairwarning.core.rollout import progress
from tests.contract.stage import (
    DAY,
    HOUR,
    MINUTE,
    approve,
    begun,
    hit,
    hits,
    operate,
    polled,
    shown,
    told,
)
from tests.fixtures.fleet import NOON, FleetHarness

SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED
STEP = 15 * MINUTE + 9  # notice of a freeze, and the freeze


def _fleet(bed: FleetHarness, machines: int = 6, domains: int = 3) -> None:
    bed.availability_set(machines=machines, domains=domains)
    bed.poll("av")


def _roll(
    bed: FleetHarness, *scopes: str, batch: int = 10, kind: ImpactKind = ImpactKind.FREEZE
) -> None:
    bed.do(StartRollout(rollout="up", scopes=scopes or ("av",), batch=batch, kind=kind))


@pytest.mark.spec("E7")
def test_domains_one_after_the_other() -> None:
    """Domains are worked off in their order, the next announced when the one before is done."""
    with FleetHarness() as bed:
        _fleet(bed)
        _roll(bed)
        for first, second in (("av0", "av3"), ("av1", "av4"), ("av2", "av5")):
            assert shown(bed, "av") == {first: SCHEDULED, second: SCHEDULED}
            bed.advance(15 * MINUTE)
            assert shown(bed, "av") == {first: STARTED, second: STARTED}
            bed.advance(9)
        assert bed.events("av") == []
        assert begun(bed) == {f"av{n}": 15 * MINUTE + n % 3 * STEP for n in range(6)}
        assert bed.rollout("up").status is RolloutStatus.DONE
        assert bed.rollout("up").ended_at == NOON + 3 * STEP


@pytest.mark.spec("E7", "E10")
@pytest.mark.parametrize("domains", [1, 3, 12])
def test_domains_are_ordered_by_number(domains: int) -> None:
    """Domain 10 comes after domain 2, not before it."""
    with FleetHarness() as bed:
        bed.availability_set(machines=domains, domains=domains)
        _roll(bed)
        bed.advance(DAY)
        assert hit(bed) == [f"av{n}" for n in range(domains)]


@pytest.mark.spec("E7")
def test_approval_speeds_it_up() -> None:
    """An approved step begins at once, and so the next comes earlier."""
    with FleetHarness() as bed:
        _fleet(bed)
        _roll(bed)
        for _ in range(3):
            approve(bed, "av")
            bed.advance(9)
        assert begun(bed) == {f"av{n}": n % 3 * 9 for n in range(6)}
        assert bed.rollout("up").status is RolloutStatus.DONE


@pytest.mark.spec("E7")
@pytest.mark.parametrize("kind", [ImpactKind.FREEZE, ImpactKind.REBOOT, ImpactKind.REDEPLOY])
def test_what_it_does_can_be_chosen(kind: ImpactKind) -> None:
    """A rollout freezes, reboots or redeploys; each machine once."""
    with FleetHarness() as bed:
        _fleet(bed)
        _roll(bed, kind=kind)
        bed.advance(2 * HOUR)
        assert sorted(hits(bed)) == [(f"av{n}", kind) for n in range(6)]


@pytest.mark.spec("E7")
def test_progress_adds_up() -> None:
    """Progress is the share of machines behind us, step by step, and one at the end."""
    with FleetHarness() as bed:
        _fleet(bed)
        _roll(bed)
        assert progress(bed.rollout("up")) == 0
        for done in (2, 4, 6):
            bed.advance(STEP)
            assert progress(bed.rollout("up")) == done / 6
        assert (bed.rollout("up").done, bed.rollout("up").machines) == (6, 6)


@pytest.mark.spec("E7")
def test_pause_lets_what_was_announced_go_on() -> None:
    """A pause begins nothing new; the step under way ends; a resume goes on with the next."""
    with FleetHarness() as bed:
        _fleet(bed)
        _roll(bed)
        bed.do(PauseRollout(rollout="up"))
        bed.advance(10 * HOUR)
        assert hit(bed) == ["av0", "av3"]
        assert bed.events("av") == []
        assert bed.rollout("up").status is RolloutStatus.PAUSED
        bed.do(ResumeRollout(rollout="up"))
        assert shown(bed, "av") == {"av1": SCHEDULED, "av4": SCHEDULED}
        bed.advance(2 * STEP)
        assert bed.rollout("up").status is RolloutStatus.DONE
        assert progress(bed.rollout("up")) == 1


@pytest.mark.spec("E7")
def test_abort_cancels_what_is_scheduled() -> None:
    """An aborted rollout's Scheduled events are gone at once, and nothing more is hit."""
    with FleetHarness() as bed:
        _fleet(bed)
        _roll(bed)
        bed.advance(STEP)
        bed.do(AbortRollout(rollout="up"))
        assert bed.events("av") == []
        bed.advance(HOUR)
        assert hit(bed) == ["av0", "av3"]
        rollout = bed.rollout("up")
        assert (rollout.status, rollout.ended_at) == (RolloutStatus.ABORTED, NOON + STEP)
        operate(bed, Restart, "av", "av1")  # the machines are free again


@pytest.mark.spec("E7")
@pytest.mark.parametrize("paused", [False, True])
def test_abort_lets_what_has_started_run_out(paused: bool) -> None:
    """A Started step of an aborted rollout ends by itself; then the rollout is over."""
    with FleetHarness() as bed:
        _fleet(bed)
        _roll(bed)
        if paused:
            bed.do(PauseRollout(rollout="up"))
        approve(bed, "av")
        bed.do(AbortRollout(rollout="up"))
        assert shown(bed, "av") == {"av0": STARTED, "av3": STARTED}
        assert bed.rollout("up").ended_at is None
        bed.advance(9)
        assert bed.events("av") == []
        assert bed.rollout("up").ended_at == NOON + 9
        bed.advance(HOUR)
        assert hit(bed) == ["av0", "av3"]
        assert told(bed, Did.ROLLOUT_ENDED) == [Did.ROLLOUT_ENDED]


@pytest.mark.spec("E7")
@pytest.mark.parametrize("batch", [1, 2])
def test_a_rollout_that_waits_at_a_pause_can_be_aborted(batch: int) -> None:
    """Also when nothing of it is under way: it is over at once."""
    with FleetHarness() as bed:
        polled(bed, "a", "b")
        _roll(bed, "a", "b", batch=batch)
        bed.do(PauseRollout(rollout="up"))
        bed.advance(HOUR)
        bed.do(AbortRollout(rollout="up"))
        assert bed.rollout("up").ended_at == NOON + HOUR
        assert len(hits(bed)) == batch


@pytest.mark.spec("E7")
def test_wrong_wishes_are_conflicts() -> None:
    """Only a paused rollout can be resumed; what is over can be neither paused nor aborted."""
    with FleetHarness() as bed:
        _fleet(bed)
        _roll(bed)
        assert _conflict(bed, ResumeRollout(rollout="up"))
        assert bed.refusal(StartRollout(rollout="up", scopes=("av",))).status == 409
        bed.do(PauseRollout(rollout="up"))
        assert _conflict(bed, PauseRollout(rollout="up"))
        bed.do(ResumeRollout(rollout="up"))
        bed.advance(HOUR)
        for wish in (PauseRollout, ResumeRollout, AbortRollout):
            assert _conflict(bed, wish(rollout="up"))
            assert bed.refusal(wish(rollout="other")).status == 404


def _conflict(bed: FleetHarness, wish: RolloutCommand) -> bool:
    before = bed.rollout("up")
    error = bed.refusal(wish)
    return (error.code, error.status) == ("RolloutState", 409) and bed.rollout("up") == before


@pytest.mark.spec("E7", "E5")
def test_a_busy_machine_defers_its_step() -> None:
    """A step whose machine has something else to do is tried again until it is free."""
    with FleetHarness() as bed:
        _fleet(bed)
        operate(bed, Restart, "av", "av1", name="restart")
        _roll(bed)
        approve(bed, "av", "av0")
        bed.advance(9 + 60)
        assert shown(bed, "av") == {"av1": SCHEDULED}  # the restart alone
        approve(bed, "av", "av1")
        bed.advance(60)
        bed.advance(5 * MINUTE)  # it is tried less and less often
        assert shown(bed, "av") == {"av1": SCHEDULED, "av4": SCHEDULED}
        bed.advance(2 * STEP)
        assert bed.rollout("up").status is RolloutStatus.DONE
        assert progress(bed.rollout("up")) == 1
        assert hit(bed).count("av1") == 2
        assert told(bed, Did.STEP_DEFERRED) == [Did.STEP_DEFERRED]


@pytest.mark.spec("E7")
def test_a_deferred_step_stays_put_during_a_pause() -> None:
    """A pause also stops the retries; a resume takes them up."""
    with FleetHarness() as bed:
        _fleet(bed, machines=1)
        operate(bed, Restart, "av", "av0", name="restart")
        _roll(bed)
        bed.do(PauseRollout(rollout="up"))
        approve(bed, "av")
        bed.advance(HOUR)
        assert hits(bed) == [("av0", ImpactKind.REBOOT)]
        bed.do(ResumeRollout(rollout="up"))
        bed.advance(STEP)
        assert hits(bed)[1:] == [("av0", ImpactKind.FREEZE)]
        assert bed.rollout("up").status is RolloutStatus.DONE
