"""Scale sets: names, placement groups, growth, deletion (T7, T3, T4)."""

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
    EventType,
    EvictionPolicy,
    Machine,
    OperationStatus,
    Priority,
    Rules,
    ScopeKind,
)
from tests.contract.units import DAY
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
def test_names_of_instances(harness: FleetHarness) -> None:
    """Resource names are `{set}_{id}`; host names begin with the prefix, or the set's name."""
    harness.make_scale_set(90)
    harness.make_scale_set(1, name="db", prefix="data")
    machines = list(harness.machines(GROUP).values())
    assert [machine.name for machine in machines] == instance_names("web", range(90))
    assert machines[85].host_name == "web00002D"
    assert harness.machines("db/0")["db_0"].host_name == "data000000"


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


@pytest.mark.spec("T7", "M16")
def test_a_placement_group_holds_a_hundred(harness: FleetHarness) -> None:
    """A larger set has several groups, and each is a scope."""
    harness.make_scale_set(250)
    sizes = [len(harness.machines(f"web/{n}")) for n in range(3)]
    assert sizes == [100, 100, 50]
    harness.operate(Restart, "web/1", "web_100")
    assert len(harness.poll("web/1")["Events"]) == 1
    assert harness.poll("web/0")["Events"] == []


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


@pytest.mark.spec("T7", "E4")
def test_instances_are_dealt_out_over_domains(harness: FleetHarness) -> None:
    """Update and fault domains are filled evenly."""
    harness.make_scale_set(10, update_domains=5, fault_domains=2)
    machines = list(harness.machines(GROUP).values())
    assert [m.update_domain for m in machines] == [0, 1, 2, 3, 4] * 2
    assert [m.fault_domain for m in machines] == [0, 1] * 5


@pytest.mark.spec("T4", "T7")
def test_deleting_a_set(harness: FleetHarness) -> None:
    """Deleting a set announces every instance; the set is deleted with the last one."""
    harness.make_scale_set(120)
    harness.do(DeleteSet(set="web", operation="op"))
    assert len(harness.statuses(GROUP)) + len(harness.statuses("web/1")) == 120
    assert harness.refusal(Scale(set="web", operation="more", capacity=200)).status == 409
    harness.advance(300)
    assert harness.scale_set("web") is not None
    harness.advance(30)
    assert harness.scale_set("web") is None
    assert not harness.exists(GROUP)
    assert not harness.exists("web/1")
    assert harness.succeeded("op")
    assert harness.refusal(Scale(set="web", operation="more", capacity=200)).status == 404


@pytest.mark.spec("T4")
def test_an_empty_set_is_deleted_at_once(harness: FleetHarness) -> None:
    """An empty set is deleted without notice, and its name can be used again."""
    harness.make_scale_set(0)
    harness.do(DeleteSet(set="web", operation="op"))
    assert harness.scale_set("web") is None
    assert harness.succeeded("op")
    harness.make_scale_set(1)


@pytest.mark.spec("T4")
def test_deleting_a_set_whose_instances_are_being_deleted(harness: FleetHarness) -> None:
    """The operation succeeds once the set is deleted, not before."""
    harness.make_scale_set(2)
    harness.delete_instances(0, 1, name="delete")
    harness.do(DeleteSet(set="web", operation="op"))
    assert harness.operation("op").status is OperationStatus.RUNNING
    harness.advance(330)
    assert harness.scale_set("web") is None
    assert harness.succeeded("op", "delete")


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


@pytest.mark.spec("E3", "T7")
def test_an_evicted_spot_instance() -> None:
    """Eviction policy Delete removes an instance from its set; Deallocate keeps it."""
    for policy, left in ((EvictionPolicy.DELETE, [1]), (EvictionPolicy.DEALLOCATE, [0, 1])):
        with FleetHarness() as harness:
            harness.make_scale_set(2, priority=Priority.SPOT, eviction=policy)
            harness.do(OperateInstances(set="web", operation="op", action=Evict, instances=(0,)))
            assert [event.type for event in harness.events(GROUP)] == [EventType.PREEMPT]
            harness.advance(40)
            assert list(harness.machines(GROUP)) == instance_names("web", left)


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
