"""A rollout pauses itself exactly when too many machines have failed, and gives the reason (E7)."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fairwarning.core.commands import ResumeRollout, StartRollout
from fairwarning.core.model import ImpactKind, RolloutStatus
from tests.fixtures.fleet import FleetHarness


def begin(harness: FleetHarness, fails: list[bool], halt: int | None) -> None:
    """Start a rollout over standalone machines, of which some fail."""
    names = [f"m{n:02d}" for n in range(len(fails))]
    failing = [name for name, bad in zip(names, fails, strict=True) if bad]
    harness.driver.failing = dict.fromkeys(failing, "broken")
    for name in names:
        harness.standalone(name)
    harness.do(
        StartRollout(
            rollout="r",
            scopes=tuple(names),
            kind=ImpactKind.REBOOT,
            batch=1,
            halt_percent=halt,
        )
    )


@pytest.mark.spec("E7")
@settings(max_examples=60)
@given(
    st.lists(st.booleans(), min_size=1, max_size=12),
    st.one_of(st.none(), st.integers(0, 100)),
)
@example(fails=[True, False], halt=50)
def test_a_rollout_pauses_when_too_many_failed(fails: list[bool], halt: int | None) -> None:
    """It pauses at `failed * 100 > halt_percent * machines`, also at the last; it can resume."""
    with FleetHarness() as harness:
        begin(harness, fails, halt)
        failed = 0
        for number, bad in enumerate(fails):
            assert harness.rollout("r").status is RolloutStatus.RUNNING
            harness.advance(60)
            failed += bad
            rollout = harness.rollout("r")
            assert (rollout.done, rollout.failed) == (number + 1 - failed, failed)
            too_many = bad and halt is not None and failed * 100 > halt * len(fails)
            last = number + 1 == len(fails)
            otherwise = RolloutStatus.DONE if last else RolloutStatus.RUNNING
            assert rollout.status is (RolloutStatus.PAUSED if too_many else otherwise)
            reason = f"{failed} of {len(fails)} machines failed, more than {halt} %"
            assert rollout.why == (reason if too_many else "")
            if too_many:
                harness.advance(3600)
                assert harness.rollout("r") == rollout
                harness.do(ResumeRollout(rollout="r"))
        assert harness.rollout("r").status is RolloutStatus.DONE
