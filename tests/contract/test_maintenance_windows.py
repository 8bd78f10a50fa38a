"""A rollout maintains a scope only in its maintenance window (E7)."""

import pytest

from fairwarning.core.commands import Configure, Deallocate, StartRollout
from fairwarning.core.decision import FactType
from fairwarning.core.model import ImpactKind, Lane, RolloutStatus, Rules
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


def test_not_before_falls_into_the_window(harness: FleetHarness) -> None:
    """The notice begins before the window opens; what does not fit waits for the next one."""
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


def test_the_journal_tells_of_each_step_that_waits(harness: FleetHarness) -> None:
    """Once for each: the second step does not fit into the window any more."""
    _fleet(harness, "Daily 22:00Z PT5M")
    _roll(harness)
    harness.advance(DAY)
    facts = [entry.line.fact for entry in harness.journal()]
    deferred = [fact.detail for fact in facts if fact.type is FactType.STEP_DEFERRED]
    assert deferred == [
        f"the maintenance window opens at 2026-01-{day}T22:00:00Z" for day in ("09", "10")
    ]


def test_a_window_that_is_removed_is_not_waited_for(harness: FleetHarness) -> None:
    """Nor one that is changed; the rollout notices within a quarter of an hour."""
    _fleet(harness, "Monday 00:00Z PT1H")
    _roll(harness)
    harness.advance(HOUR)
    assert harness.events("av") == []
    harness.do(Configure(scope="av", rules=Rules()))
    harness.advance(15 * MINUTE)
    assert harness.only_event("av").not_before


@pytest.mark.spec("E11")
@pytest.mark.parametrize("ahead", [-2 * HOUR, -HOUR, HOUR, 2 * HOUR])
def test_a_window_opens_by_the_hosts_clock(harness: FleetHarness, ahead: int) -> None:
    """Also while fleet time is not wall time, because a notice was pending when that changed."""
    _fleet(harness)
    harness.clock.ahead_seconds = lambda: ahead  # type: ignore[method-assign]
    _roll(harness)
    harness.advance(OPENS + ahead - 10 * MINUTE)
    assert harness.only_event("av").published_not_before == NOON + OPENS
    harness.approve("av")
    harness.advance(DAY)
    times = [moment - ahead for moment in harness.impact_times().values()]
    assert min(times) == OPENS
    assert max(times) < OPENS + HOUR


def test_windows_without_a_common_time(harness: FleetHarness) -> None:
    """A wave waits for a time when all windows are open; the journal says so once."""
    for name, window in (("a", NIGHTLY), ("b", "Daily 12:00Z PT1H")):
        harness.standalone(name, host="h1")
        harness.do(Configure(scope=name, rules=Rules(maintenance_window=window)))
    harness.do(StartRollout(rollout="up", scopes=("a", "b"), by_host=True))
    harness.advance(2 * DAY)
    lane = harness.run(harness.fleet.reader.read(Lane, "up/0"))
    assert (lane and lane.window_at) == 0
    assert harness.impacted() == []
    facts = [entry.line.fact for entry in harness.journal()]
    deferred = [fact.detail for fact in facts if fact.type is FactType.STEP_DEFERRED]
    assert deferred == ["the maintenance window does not open at a time for all"]
    harness.do(Configure(scope="b", rules=Rules()))
    harness.advance(DAY)
    assert harness.impacted() == ["a", "b"]


def test_an_approval_waits_for_the_window(harness: FleetHarness) -> None:
    """An event that is approved before its window opens starts when it opens."""
    _fleet(harness)
    _roll(harness)
    harness.advance(OPENS - 10 * MINUTE)
    harness.approve("av")
    assert harness.impacted() == []
    harness.advance(10 * MINUTE - 1)
    assert harness.impacted() == []
    harness.advance(1)
    assert list(harness.impact_times().values()) == [OPENS]


def test_an_approval_in_an_open_window_starts_at_once(harness: FleetHarness) -> None:
    """The second step is announced while the window is open."""
    _fleet(harness, "Daily 11:00Z PT4H")
    _roll(harness)
    harness.approve("av")
    assert list(harness.impact_times().values()) == [0]


@pytest.mark.spec("E5")
@pytest.mark.parametrize(
    ("window", "starts"), [(NIGHTLY, OPENS + 7 * MINUTE), ("Daily 22:00Z PT5M", DAY + OPENS)]
)
def test_what_is_left_of_an_event_starts_in_the_window(
    harness: FleetHarness, window: str, starts: int
) -> None:
    """One machine leaves: the others have full notice, in the same window or in the next."""
    harness.availability_set(machines=2, domains=1)
    harness.do(Configure(scope="av", rules=Rules(maintenance_window=window)))
    harness.poll("av")
    _roll(harness)
    harness.advance(OPENS - 8 * MINUTE)
    harness.operate(Deallocate, "av", "av0", name="user")
    assert harness.only_event("av").not_before == NOON + starts
    harness.advance(DAY + OPENS)
    assert harness.impact_times()["av1"] == starts
