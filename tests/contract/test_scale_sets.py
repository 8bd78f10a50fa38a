"""Scale sets: names, placement groups, growth, deletion, and what scale-in deletes (T3, T4, T7)."""

from collections import Counter

import pytest

from fairwarning.core.commands import (
    CreateScope,
    CreateSet,
    Delete,
    DeleteSet,
    Evict,
    OperateInstances,
    ProtectInstances,
    Restart,
    Scale,
    UpdateSet,
    UpgradeInstances,
)
from fairwarning.core.growing import host_name
from fairwarning.core.model import (
    ImpactKind,
    Machine,
    OperationStatus,
    Priority,
    Rules,
    ScaleInRule,
    ScopeKind,
)
from tests.contract.units import DAY, HOUR
from tests.fixtures.fleet import FleetHarness, instance_names

GROUP = "web/0"


@pytest.mark.spec("T7")
@pytest.mark.parametrize(
    ("instance", "digits"),
    [(0, "000000"), (9, "000009"), (13, "00000D"), (35, "00000Z"), (36, "000010"),
     (85, "00002D"), (36**6 - 1, "ZZZZZZ")],
)  # fmt: skip
def test_host_names_count_in_base_36(instance: int, digits: str) -> None:
    """A host name is the prefix and the id in base 36, six digits, upper case."""
    assert host_name("web", instance) == f"web{digits}"


@pytest.mark.spec("T7")
def test_ids_are_never_reused(harness: FleetHarness) -> None:
    """A new instance never gets the id of a deleted one."""
    harness.make_scale_set(3, terminate_seconds=0)
    harness.delete_instances(2, 0, name="delete")
    harness.advance(60)
    harness.scale(3)
    assert list(harness.machines(GROUP)) == instance_names("web", [1, 3, 4])
    harness.scale(0)
    harness.advance(60)
    harness.restart()
    harness.scale(2)
    assert list(harness.machines(GROUP)) == instance_names("web", [5, 6])


@pytest.mark.spec("T7")
def test_growing_fills_the_gaps_first(harness: FleetHarness) -> None:
    """New instances fill existing groups before a new group is created."""
    harness.make_scale_set(150, terminate_seconds=0)
    harness.delete_instances(*range(10), name="delete")
    harness.advance(60)
    harness.scale(200)
    scale_set = harness.scale_set("web")
    assert scale_set is not None
    assert scale_set.groups == ("web/0", "web/1")
    assert [len(harness.machines(group)) for group in scale_set.groups] == [100, 100]


@pytest.mark.spec("T4")
def test_an_empty_set_is_deleted_at_once(harness: FleetHarness) -> None:
    """An empty set is deleted without notice, and its name can be used again."""
    harness.make_scale_set(0)
    harness.do(DeleteSet(set="web", operation="op"))
    assert harness.scale_set("web") is None
    assert harness.succeeded("op")
    harness.make_scale_set(1)


@pytest.mark.spec("T4")
@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_a_failed_set_deletion_can_be_repeated(harness: FleetHarness, how: str) -> None:
    """If an instance stays, the set stays; the operation fails and can be repeated."""
    harness.make_scale_set(2)
    harness.do(DeleteSet(set="web", operation="op"))
    if how == "cancelled":
        harness.cancel(GROUP, "web_0")
    else:
        harness.driver.fail = "disk is locked"
    harness.advance(330)
    harness.driver.fail = ""
    assert harness.scale_set("web") is not None
    assert harness.operation("op").status is OperationStatus.FAILED
    harness.do(DeleteSet(set="web", operation="again"))
    harness.advance(330)
    assert harness.scale_set("web") is None
    assert harness.succeeded("again")


@pytest.mark.spec("T7")
def test_unknown_instances_are_refused(harness: FleetHarness) -> None:
    """An unknown instance id refuses the whole operation."""
    harness.make_scale_set(2)
    for command in (
        OperateInstances(set="web", operation="op", action=Delete, instances=(0, 7)),
        UpgradeInstances(set="web", instances=(0, 7)),
        ProtectInstances(set="web", instances=(0, 7)),
    ):
        error = harness.refusal(command)
        assert (error.code, error.status) == ("UnknownInstance", 404)
    assert harness.events(GROUP) == []


@pytest.mark.spec("T7")
def test_a_set_does_not_replace_a_scope(harness: FleetHarness) -> None:
    """A set is refused if a scope has the name of one of its groups."""
    machine = (Machine(name="mine"),)
    harness.do(CreateScope(scope="web/0", kind=ScopeKind.AVAILABILITY_SET, machines=machine))
    assert harness.refusal(CreateSet(set="web", capacity=3)).code == "ScopeExists"
    assert harness.scale_set("web") is None
    assert list(harness.machines("web/0")) == ["mine"]


@pytest.mark.spec("T3", "E1")
def test_settings_reach_all_groups(harness: FleetHarness) -> None:
    """A set's rules apply to its present and future groups."""
    harness.make_scale_set(101)
    harness.do(UpdateSet(set="web", rules=Rules(reboot_seconds=77)))
    harness.scale(201)
    assert {harness.scope(f"web/{n}").rules.reboot_seconds for n in range(3)} == {77}
    assert harness.scope("web/2").rules.idle_seconds == DAY


def _of_two_ages(harness: FleetHarness, rule: ScaleInRule) -> None:
    """Create instances 0 to 2, and an hour later 3 and 4; fault domains 0 1 0 1 0."""
    harness.make_scale_set(3, terminate_seconds=0, scale_in=rule, fault_domains=2)
    harness.advance(HOUR)
    harness.scale(5)


@pytest.mark.spec("T4")
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


@pytest.mark.spec("T4")
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


@pytest.mark.spec("T4")
def test_a_protected_instance_can_be_deleted_by_name(harness: FleetHarness) -> None:
    """A protected instance can still be deleted by name."""
    harness.make_scale_set(1, terminate_seconds=0)
    harness.do(ProtectInstances(set="web", instances=(0,)))
    harness.delete_instances(0, name="delete")
    assert harness.impacted() == ["web_0"]


@pytest.mark.spec("T4", "E5")
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


@pytest.mark.spec("T4", "E5")
@pytest.mark.parametrize("rule", ScaleInRule)
def test_scale_in_skips_busy_instances(harness: FleetHarness, rule: ScaleInRule) -> None:
    """Scale-in does not choose instances that are being rebooted or evicted."""
    harness.make_scale_set(3, priority=Priority.SPOT, scale_in=rule)
    harness.operate(Evict, GROUP, "web_2", name="evict")
    harness.operate(Restart, GROUP, "web_0", name="restart")
    harness.approve(GROUP, "web_0")
    harness.scale(2)
    assert harness.impacts()[1:] == [("web_1", ImpactKind.DELETE)]


def _zones(harness: FleetHarness) -> Counter[str]:
    return Counter(machine.zone for machine in harness.machines(GROUP).values())


@pytest.mark.spec("T4")
def test_scale_in_counts_protected_instances_of_a_zone(harness: FleetHarness) -> None:
    """The zones of those that stay are level, whether scale-in may delete them or not."""
    harness.make_scale_set(6, terminate_seconds=0, zones=("1", "2"))
    harness.do(ProtectInstances(set="web", instances=(0, 2)))  # two of the three in zone 1
    harness.scale(4)
    harness.advance(HOUR)
    assert _zones(harness) == {"1": 2, "2": 2}


@pytest.mark.spec("T4")
def test_scale_out_does_not_count_instances_that_leave(harness: FleetHarness) -> None:
    """Scaling back while deletes are pending leaves the zones level."""
    harness.make_scale_set(4, terminate_seconds=300, zones=("1", "2"))
    harness.poll(GROUP)
    harness.delete_instances(1, 3)  # both of zone 2
    harness.scale(4)
    harness.advance(HOUR)
    assert _zones(harness) == {"1": 2, "2": 2}
