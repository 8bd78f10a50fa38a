"""Which instances a scale-in deletes (T4, E5)."""

from collections import Counter

import pytest

from fairwarning.core.commands import Evict, ProtectInstances, Restart, Scale
from fairwarning.core.model import EventType, ImpactKind, OperationStatus, Priority, ScaleInRule
from tests.contract.units import HOUR
from tests.fixtures.fleet import FleetHarness, instance_names

pytestmark = pytest.mark.spec("T4")

GROUP = "web/0"


def _of_two_ages(harness: FleetHarness, rule: ScaleInRule) -> None:
    """Create instances 0 to 2, and an hour later 3 and 4; fault domains 0 1 0 1 0."""
    harness.make_scale_set(3, terminate_seconds=0, scale_in=rule, fault_domains=2)
    harness.advance(HOUR)
    harness.scale(5)


@pytest.mark.parametrize(
    ("rule", "leaving"),
    [
        (ScaleInRule.DEFAULT, [4, 3, 2]),  # the highest id of the fullest fault domain
        (ScaleInRule.NEWEST, [4, 3, 2]),
        (ScaleInRule.OLDEST, [0, 1, 2]),
    ],
)
def test_scale_in_rules(harness: FleetHarness, rule: ScaleInRule, leaving: list[int]) -> None:
    """Default balances fault domains; NewestVM and OldestVM choose by age."""
    _of_two_ages(harness, rule)
    harness.scale(2)
    assert sorted(harness.impacted()) == instance_names("web", sorted(leaving))


def test_default_scale_in_levels_fault_domains(harness: FleetHarness) -> None:
    """Default deletes an instance of the fullest fault domain, even an older one."""
    harness.make_scale_set(6, terminate_seconds=0, fault_domains=3)  # 0 1 2 0 1 2
    harness.delete_instances(5, 2, name="delete")
    harness.advance(60)  # 0 1 _ 0 1 _
    harness.scale(3)
    assert harness.impacted()[2:] == instance_names("web", [4])
    harness.advance(60)
    harness.scale(2)
    assert harness.impacted()[3:] == instance_names("web", [3])


def test_protected_instances_stay(harness: FleetHarness) -> None:
    """Scale-in skips protected instances, and is refused if too few others are left."""
    _of_two_ages(harness, ScaleInRule.NEWEST)
    harness.do(ProtectInstances(set="web", instances=(4, 2)))
    harness.scale(3)
    assert sorted(harness.impacted()) == instance_names("web", [1, 3])
    harness.advance(60)
    error = harness.refusal(Scale(set="web", operation="all", capacity=0))
    assert (error.code, error.status) == ("NotEnoughInstances", 409)
    assert sorted(harness.machines(GROUP)) == instance_names("web", [0, 2, 4])
    harness.do(ProtectInstances(set="web", instances=(4, 2), protected=False))
    harness.scale(0)
    assert len(harness.impacts()) == 5


def test_a_protected_instance_can_be_deleted_by_name(harness: FleetHarness) -> None:
    """A protected instance can still be deleted by name."""
    harness.make_scale_set(1, terminate_seconds=0)
    harness.do(ProtectInstances(set="web", instances=(0,)))
    harness.delete_instances(0, name="delete")
    assert harness.impacted() == ["web_0"]


@pytest.mark.spec("E5")
def test_scaling_ignores_instances_under_notice(harness: FleetHarness) -> None:
    """An instance under notice does not count: scaling to the same size deletes no other."""
    harness.make_scale_set(4)
    harness.scale(3)
    assert len(harness.events(GROUP)) == 1
    harness.scale(3, name="again")
    assert len(harness.events(GROUP)) == 1
    harness.scale(4)  # growing before it is deleted adds one
    assert list(harness.machines(GROUP)) == instance_names("web", range(5))
    harness.advance(HOUR)
    assert len(harness.machines(GROUP)) == 4


@pytest.mark.spec("E5")
def test_scale_in_replaces_a_pending_reboot(harness: FleetHarness) -> None:
    """A scale-in replaces a pending reboot, as a delete does."""
    harness.make_scale_set(1)
    harness.operate(Restart, GROUP, "web_0", name="restart")
    harness.scale(0)
    assert [event.type for event in harness.events(GROUP)] == [EventType.TERMINATE]
    assert harness.operation("restart").status is OperationStatus.CANCELED


@pytest.mark.spec("E5")
@pytest.mark.parametrize("rule", ScaleInRule)
def test_scale_in_skips_busy_instances(harness: FleetHarness, rule: ScaleInRule) -> None:
    """Scale-in does not choose instances that are being rebooted or evicted."""
    harness.make_scale_set(3, priority=Priority.SPOT, scale_in=rule)
    harness.operate(Evict, GROUP, "web_2", name="evict")
    harness.operate(Restart, GROUP, "web_0", name="restart")
    harness.approve(GROUP, "web_0")
    harness.scale(2)
    assert harness.impacts()[1:] == [("web_1", ImpactKind.DELETE)]


@pytest.mark.spec("T7")
def test_scale_in_chooses_by_age_not_by_group(harness: FleetHarness) -> None:
    """A newer instance that filled a gap in the first group outlives older ones of the second."""
    harness.make_scale_set(101, terminate_seconds=0, scale_in=ScaleInRule.OLDEST)
    harness.delete_instances(0, name="delete")
    harness.advance(60)
    harness.scale(101)
    assert list(harness.machines(GROUP))[-1] == "web_101"
    harness.scale(1)
    harness.advance(60)
    assert list(harness.machines(GROUP)) == ["web_101"]
    assert list(harness.machines("web/1")) == []


def _zones(harness: FleetHarness) -> Counter[str]:
    return Counter(machine.zone for machine in harness.machines(GROUP).values())


def test_scale_in_counts_protected_instances_of_a_zone(harness: FleetHarness) -> None:
    """The zones of those that stay are level, whether scale-in may delete them or not."""
    harness.make_scale_set(6, terminate_seconds=0, zones=("1", "2"))
    harness.do(ProtectInstances(set="web", instances=(0, 2)))  # two of the three in zone 1
    harness.scale(4)
    harness.advance(HOUR)
    assert _zones(harness) == {"1": 2, "2": 2}


def test_scale_out_does_not_count_instances_that_leave(harness: FleetHarness) -> None:
    """Scaling back while deletes are pending leaves the zones level."""
    harness.make_scale_set(4, terminate_seconds=300, zones=("1", "2"))
    harness.poll(GROUP)
    harness.delete_instances(1, 3)  # both of zone 2
    harness.scale(4)
    harness.advance(HOUR)
    assert _zones(harness) == {"1": 2, "2": 2}
