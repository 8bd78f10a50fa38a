"""Scale sets that scale themselves: schedules, metrics, cooldown, and notice before a scale-in."""

import pytest

from fairwarning.core.commands import (
    CreateSet,
    DeleteSet,
    ProtectInstances,
    ReportMetric,
    Scale,
    SetAutoscale,
)
from fairwarning.core.errors import Conflict, Refused
from fairwarning.core.model import (
    CapacityChange,
    CapacityProfile,
    Comparison,
    EventStatus,
    ScaleRule,
)
from tests.contract.units import DAY, HOUR, MINUTE
from tests.fixtures.fleet import FleetHarness

pytestmark = pytest.mark.spec("C6", "T4")

CPU = "Percentage CPU"
OUT = ScaleRule(
    metric=CPU,
    operator=Comparison.GREATER,
    threshold=70,
    change=CapacityChange.INCREASE,
    value=2,
)
IN = ScaleRule(
    metric=CPU,
    operator=Comparison.LESS,
    threshold=30,
    change=CapacityChange.DECREASE,
    value=1,
)


def profile(
    least: int = 2, most: int = 8, *rules: ScaleRule, schedule: str = ""
) -> CapacityProfile:
    """A profile whose default is its minimum."""
    return CapacityProfile(
        name=schedule or "usual",
        minimum=least,
        maximum=most,
        default=least,
        rules=rules,
        schedule=schedule,
    )


def create(harness: FleetHarness, *profiles: CapacityProfile, notice: int = 300) -> None:
    """Create the set `web` with three instances, which scales itself."""
    harness.do(CreateSet(set="web", capacity=3, terminate_seconds=notice))
    harness.poll("web/0")
    harness.do(SetAutoscale(set="web", profiles=profiles))


def report(harness: FleetHarness, value: float, metric: str = CPU) -> None:
    """Report a metric."""
    harness.do(ReportMetric(set="web", metric=metric, value=value))


def count(harness: FleetHarness) -> int:
    """The number of instances, with those that are leaving."""
    return len(harness.machines("web/0"))


def test_the_capacity_is_brought_into_its_bounds() -> None:
    """At once, and within a minute after a user changed it."""
    with FleetHarness() as harness:
        create(harness, profile(5, 6))
        assert count(harness) == 5
        harness.do(Scale(set="web", capacity=9, operation="by hand"))
        assert count(harness) == 9
        harness.advance(MINUTE)
        assert len(harness.events("web/0")) == 3  # each is told before it is deleted
        harness.advance(6 * MINUTE)
        assert count(harness) == 6


def test_a_schedule_opens_and_closes() -> None:
    """Its profile counts while it is open; the harness begins at noon."""
    with FleetHarness() as harness:
        create(harness, profile(2, 4), profile(6, 9, schedule="2026-01-09T18:00Z PT4H Day"))
        assert count(harness) == 3
        harness.advance(6 * HOUR)
        assert count(harness) == 6
        harness.advance(4 * HOUR)
        assert {event.status for event in harness.events("web/0")} == {EventStatus.SCHEDULED}
        harness.advance(6 * MINUTE)
        assert count(harness) == 4
        harness.advance(20 * HOUR)
        assert count(harness) == 6


def test_a_metric_scales_out_and_in() -> None:
    """While it is past the threshold, once in a cooldown, up to the bounds."""
    with FleetHarness() as harness:
        create(harness, profile(2, 8, OUT, IN))
        report(harness, 50)
        assert count(harness) == 3
        report(harness, 90)
        assert count(harness) == 5
        report(harness, 95)
        assert count(harness) == 5  # in its cooldown
        harness.advance(5 * MINUTE)
        assert count(harness) == 7
        harness.advance(HOUR)
        assert count(harness) == 8
        report(harness, 10)
        assert len(harness.events("web/0")) == 1
        report(harness, 50)
        harness.advance(6 * MINUTE)
        assert count(harness) == 7


def test_all_rules_must_agree_to_scale_in() -> None:
    """One is enough to scale out."""
    with FleetHarness() as harness:
        queue = ScaleRule(
            metric="Queue", operator=Comparison.LESS_OR_EQUAL, threshold=1,
            change=CapacityChange.DECREASE_PERCENT, value=50,
        )  # fmt: skip
        create(harness, profile(1, 8, OUT, IN, queue), notice=0)
        report(harness, 10)
        assert count(harness) == 3  # nothing is known of the queue
        report(harness, 0, "Queue")
        harness.advance(30)
        assert count(harness) == 2  # the smaller of both changes


def test_the_default_counts_while_no_metric_is_known() -> None:
    """As on Azure, a set that is below it grows to it."""
    with FleetHarness() as harness:
        blind = CapacityProfile(name="p", minimum=1, maximum=9, default=5, rules=(OUT,))
        create(harness, blind)
        assert count(harness) == 5


def test_protected_instances_stay() -> None:
    """The set takes what it can, and tries again."""
    with FleetHarness() as harness:
        create(harness, profile(3, 3), notice=0)
        harness.do(ProtectInstances(set="web", instances=(0, 1)))
        harness.do(SetAutoscale(set="web", profiles=(profile(1, 1),)))
        harness.advance(30)
        assert count(harness) == 2
        harness.do(ProtectInstances(set="web", instances=(0, 1), protected=False))
        harness.advance(2 * MINUTE)
        assert count(harness) == 1


def test_what_is_refused() -> None:
    """And changes nothing."""
    with FleetHarness() as harness:
        harness.do(CreateSet(set="web", capacity=3))
        with pytest.raises(Conflict, match="does not scale itself"):
            report(harness, 1)
        with pytest.raises(Refused, match="default lies between"):
            harness.do(SetAutoscale(set="web", profiles=(profile(5, 2),)))
        with pytest.raises(Refused, match="at most one profile without a schedule"):
            harness.do(SetAutoscale(set="web", profiles=(profile(), profile())))
        harness.do(SetAutoscale(set="web", profiles=(profile(1, 8, OUT),)))
        with pytest.raises(Conflict, match="they have: Percentage CPU"):
            report(harness, 1, "Memory")
        assert count(harness) == 3


def test_it_can_be_turned_off() -> None:
    """And ends with its set."""
    with FleetHarness() as harness:
        create(harness, profile(2, 4, schedule="2026-01-09T18:00Z PT4H Day"), notice=0)
        harness.do(SetAutoscale(set="web", profiles=()))
        harness.do(Scale(set="web", capacity=9, operation="by hand"))
        harness.advance(DAY)
        assert count(harness) == 9
        later = profile(2, 4, schedule="2026-01-11T18:00Z PT4H")
        harness.do(SetAutoscale(set="web", profiles=(later,)))
        harness.do(DeleteSet(set="web", operation="gone"))
        harness.advance(3 * DAY)
        assert harness.succeeded("gone")


def test_a_full_subnet() -> None:
    """A set that cannot grow says so once in the journal, and tries again."""
    with FleetHarness() as harness:
        subnet = "10.0.0.0/29"  # three usable addresses
        harness.do(CreateSet(set="web", capacity=2, subnet=subnet))
        scheduled = profile(5, 5, schedule="2026-01-09T13:00Z PT4H")
        harness.do(SetAutoscale(set="web", profiles=(scheduled,)))
        harness.advance(2 * HOUR)
        assert count(harness) == 2
        details = [entry.line.fact.detail for entry in harness.journal()]
        assert sum("autoscale refused: subnet 10.0.0.0/29 has" in text for text in details) == 1
        harness.do(SetAutoscale(set="web", profiles=(profile(3, 3),)))
        assert count(harness) == 3
