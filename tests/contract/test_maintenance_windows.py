"""A rollout maintains a scope only in its maintenance window (E7)."""

import pytest

from fairwarning.core.commands import Configure, StartRollout
from fairwarning.core.decision import FactType
from fairwarning.core.model import ImpactKind, RolloutStatus, Rules
from tests.contract.units import DAY, HOUR, MINUTE
from tests.fixtures.fleet import NOON, FleetHarness

pytestmark = pytest.mark.spec("E7")

NIGHTLY = "Daily 22:00Z PT1H"  # the harness begins at noon
OPENS = 10 * HOUR


def _fleet(harness: FleetHarness, window: str = NIGHTLY, *, polled: bool = True) -> None:
    harness.availability_set(machines=3, domains=3)
    harness.do(Configure(scope="av", rules=Rules(maintenance_window=window)))
    if polled:
        harness.poll("av")


def _roll(harness: FleetHarness, *scopes: str) -> None:
    harness.do(StartRollout(rollout="up", scopes=scopes or ("av",), kind=ImpactKind.FREEZE))


def test_not_before_falls_into_the_window() -> None:
    """The notice begins before the window opens; what does not fit waits for the next one."""
    with FleetHarness() as harness:
        _fleet(harness)
        _roll(harness)
        harness.advance(OPENS - 15 * MINUTE - 1)
        assert harness.events("av") == []
        harness.advance(1)
        assert harness.only_event("av").not_before == NOON + OPENS
        harness.advance(2 * DAY)
        times = harness.impact_times()
        assert all(OPENS <= moment % DAY < OPENS + HOUR for moment in times.values())
        assert len(times) == 3
        assert harness.rollout("up").status is RolloutStatus.DONE


def test_without_notice_the_impact_waits() -> None:
    """A scope that nobody polls is maintained when its window opens."""
    with FleetHarness() as harness:
        _fleet(harness, polled=False)
        _roll(harness)
        harness.advance(OPENS - 1)
        assert harness.impacted() == []
        harness.advance(MINUTE)
        assert set(harness.impact_times().values()) <= {OPENS, OPENS + 9, OPENS + 18}


def test_a_window_that_is_removed_is_not_waited_for() -> None:
    """Nor one that is changed; the rollout notices within a quarter of an hour."""
    with FleetHarness() as harness:
        _fleet(harness, "Monday 00:00Z PT1H")
        _roll(harness)
        harness.advance(HOUR)
        assert harness.events("av") == []
        harness.do(Configure(scope="av", rules=Rules()))
        harness.advance(15 * MINUTE)
        assert harness.only_event("av").not_before


def test_windows_without_a_common_time() -> None:
    """A wave waits for a time when all windows are open; the journal says so once."""
    with FleetHarness() as harness:
        for name, window in (("a", NIGHTLY), ("b", "Daily 12:00Z PT1H")):
            harness.standalone(name, host="h1")
            harness.do(Configure(scope=name, rules=Rules(maintenance_window=window)))
        harness.do(StartRollout(rollout="up", scopes=("a", "b"), by_host=True))
        harness.advance(2 * DAY)
        assert harness.impacted() == []
        facts = [entry.line.fact for entry in harness.journal()]
        deferred = [fact.detail for fact in facts if fact.type is FactType.STEP_DEFERRED]
        assert deferred == ["the maintenance window does not open at a time for all"]
        harness.do(Configure(scope="b", rules=Rules()))
        harness.advance(DAY)
        assert harness.impacted() == ["a", "b"]
