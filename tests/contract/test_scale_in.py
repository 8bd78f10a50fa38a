"""Who leaves when a set shrinks (T4, E5)."""

import pytest

from fairwarning.core.commands import (
    Delete,
    Evict,
    OperateInstances,
    ProtectInstances,
    Restart,
    Scale,
)
from fairwarning.core.model import (
    EventType,
    ImpactKind,
    OperationStatus,
    Priority,
    ScaleInRule,
)
from tests.contract.shortcuts import HOUR, approve, hit, hits, names, operate, set_of
from tests.fixtures.fleet import FleetHarness

GROUP = "web/0"


def _scale(harness: FleetHarness, capacity: int, name: str = "") -> None:
    harness.do(Scale(set="web", operation=name or f"to {capacity}", capacity=capacity))


def _delete(harness: FleetHarness, *instances: int) -> None:
    harness.do(OperateInstances(set="web", operation="delete", action=Delete, instances=instances))


def _of_two_ages(harness: FleetHarness, rule: ScaleInRule) -> None:
    """Instances 0 to 2, and 3 and 4 an hour younger; fault domains 0 1 0 1 0."""
    set_of(harness, 3, terminate_seconds=0, scale_in=rule, fault_domains=2)
    harness.advance(HOUR)
    _scale(harness, 5)


@pytest.mark.spec("T4")
@pytest.mark.parametrize(
    ("rule", "leaving"),
    [
        (ScaleInRule.DEFAULT, [4, 3, 2]),  # the fullest fault domain, and there the highest id
        (ScaleInRule.NEWEST, [4, 3, 2]),
        (ScaleInRule.OLDEST, [0, 1, 2]),
    ],
)
def test_scale_in_rules(rule: ScaleInRule, leaving: list[int]) -> None:
    """Default keeps fault domains level, NewestVM and OldestVM go by age."""
    with FleetHarness() as harness:
        _of_two_ages(harness, rule)
        _scale(harness, 2)
        assert sorted(hit(harness)) == names("web", sorted(leaving))


@pytest.mark.spec("T4")
def test_default_scale_in_levels_fault_domains() -> None:
    """The instance that goes is one of the fullest fault domain, even if older."""
    with FleetHarness() as harness:
        set_of(harness, 6, terminate_seconds=0, fault_domains=3)  # 0 1 2 0 1 2
        _delete(harness, 5, 2)
        harness.advance(60)  # 0 1 _ 0 1 _
        _scale(harness, 3)
        assert hit(harness)[2:] == names("web", [4])
        harness.advance(60)
        _scale(harness, 2)
        assert hit(harness)[3:] == names("web", [3])


@pytest.mark.spec("T4")
def test_protected_instances_stay() -> None:
    """Scale-in passes protected instances over, and is refused when too few are left."""
    with FleetHarness() as harness:
        _of_two_ages(harness, ScaleInRule.NEWEST)
        harness.do(ProtectInstances(set="web", instances=(4, 2)))
        _scale(harness, 3)
        assert sorted(hit(harness)) == names("web", [1, 3])
        harness.advance(60)
        error = harness.refusal(Scale(set="web", operation="all", capacity=0))
        assert (error.code, error.status) == ("NotEnoughInstances", 409)
        assert sorted(harness.machines(GROUP)) == names("web", [0, 2, 4])
        harness.do(ProtectInstances(set="web", instances=(4, 2), protected=False))
        _scale(harness, 0)
        assert len(hits(harness)) == 5


@pytest.mark.spec("T4")
def test_protection_does_not_keep_from_a_delete_by_hand() -> None:
    """Protection is from being chosen; whoever names the instance may delete it."""
    with FleetHarness() as harness:
        set_of(harness, 1, terminate_seconds=0)
        harness.do(ProtectInstances(set="web", instances=(0,)))
        _delete(harness, 0)
        assert hit(harness) == ["web_0"]


@pytest.mark.spec("T4", "E5")
def test_scaling_counts_who_is_leaving() -> None:
    """An instance under notice does not count: scaling to the same again deletes nobody else."""
    with FleetHarness() as harness:
        set_of(harness, 4)
        _scale(harness, 3)
        assert len(harness.events(GROUP)) == 1
        _scale(harness, 3, name="again")
        assert len(harness.events(GROUP)) == 1
        _scale(harness, 4)  # and growing before it is gone adds one
        assert list(harness.machines(GROUP)) == names("web", range(5))
        harness.advance(HOUR)
        assert len(harness.machines(GROUP)) == 4


@pytest.mark.spec("T4", "E5")
def test_scale_in_replaces_a_pending_reboot() -> None:
    """A delete replaces pending work, also when the set chose the instance."""
    with FleetHarness() as harness:
        set_of(harness, 1)
        operate(harness, Restart, GROUP, "web_0", name="restart")
        _scale(harness, 0)
        assert [event.type for event in harness.events(GROUP)] == [EventType.TERMINATE]
        assert harness.operation("restart").status is OperationStatus.CANCELED


@pytest.mark.spec("T4", "E5")
@pytest.mark.parametrize("rule", ScaleInRule)
def test_scale_in_passes_over_who_cannot_leave_now(rule: ScaleInRule) -> None:
    """Instances being rebooted, or about to be evicted, are not chosen; free ones are."""
    with FleetHarness() as harness:
        set_of(harness, 3, priority=Priority.SPOT, scale_in=rule)
        operate(harness, Evict, GROUP, "web_2", name="evict")
        operate(harness, Restart, GROUP, "web_0", name="restart")
        approve(harness, GROUP, "web_0")
        _scale(harness, 2)
        assert hits(harness)[1:] == [("web_1", ImpactKind.DELETE)]


@pytest.mark.spec("T4", "T7")
def test_age_counts_not_the_place() -> None:
    """A young instance that filled a gap in the first group outlives older ones of the second."""
    with FleetHarness() as harness:
        set_of(harness, 101, terminate_seconds=0, scale_in=ScaleInRule.OLDEST)
        _delete(harness, 0)
        harness.advance(60)
        _scale(harness, 101)
        assert list(harness.machines(GROUP))[-1] == "web_101"
        _scale(harness, 1)
        harness.advance(60)
        assert list(harness.machines(GROUP)) == ["web_101"]
        assert list(harness.machines("web/1")) == []
