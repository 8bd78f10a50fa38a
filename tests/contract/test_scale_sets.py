"""Scale sets: names, placement groups, growing, going (T7, T3, T4)."""

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
from fairwarning.core.model import (
    EventType,
    EvictionPolicy,
    Machine,
    OperationStatus,
    Priority,
    Rules,
    ScopeKind,
)
from fairwarning.core.scaleset import host_name
from tests.contract.stage import (
    DAY,
    approve,
    cancel,
    names,
    operate,
    set_of,
    shown,
    succeeded,
)
from tests.fixtures.fleet import FleetHarness

GROUP = "web/0"


def _scale(bed: FleetHarness, capacity: int, name: str = "") -> None:
    bed.do(Scale(set="web", operation=name or f"to {capacity}", capacity=capacity))


def _delete(bed: FleetHarness, *instances: int, name: str = "delete") -> None:
    bed.do(OperateInstances(set="web", operation=name, action=Delete, instances=instances))


@pytest.mark.spec("T7")
@pytest.mark.parametrize(
    ("instance", "digits"),
    [(0, "000000"), (9, "000009"), (13, "00000D"), (35, "00000Z"), (36, "000010"),
     (85, "00002D"), (36**6 - 1, "ZZZZZZ")],
)  # fmt: skip
def test_host_names_count_in_base_36(instance: int, digits: str) -> None:
    """A host name is the prefix and the id in base 36, six places, upper case."""
    assert host_name("web", instance) == f"web{digits}"


@pytest.mark.spec("T7")
def test_names_of_instances() -> None:
    """Resource names are `{set}_{id}`; host names begin with the prefix, or the set's name."""
    with FleetHarness() as bed:
        set_of(bed, 90)
        set_of(bed, 1, name="db", prefix="data")
        machines = list(bed.machines(GROUP).values())
        assert [machine.name for machine in machines] == names("web", range(90))
        assert machines[85].host_name == "web00002D"
        assert bed.machines("db/0")["db_0"].host_name == "data000000"


@pytest.mark.spec("T7")
def test_ids_are_never_reused() -> None:
    """Whatever was deleted, a new instance has an id that none ever had."""
    with FleetHarness() as bed:
        set_of(bed, 3, terminate_seconds=0)
        _delete(bed, 2, 0)
        bed.advance(60)
        _scale(bed, 3)
        assert list(bed.machines(GROUP)) == names("web", [1, 3, 4])
        _scale(bed, 0)
        bed.advance(60)
        bed.restart()
        _scale(bed, 2)
        assert list(bed.machines(GROUP)) == names("web", [5, 6])


@pytest.mark.spec("T7", "M16")
def test_a_placement_group_holds_a_hundred() -> None:
    """A larger set has several groups; each is a scope of its own."""
    with FleetHarness() as bed:
        set_of(bed, 250)
        sizes = [len(bed.machines(f"web/{n}")) for n in range(3)]
        assert sizes == [100, 100, 50]
        operate(bed, Restart, "web/1", "web_100")
        assert len(bed.poll("web/1")["Events"]) == 1
        assert bed.poll("web/0")["Events"] == []


@pytest.mark.spec("T7")
def test_growing_fills_the_gaps_first() -> None:
    """New instances go where there is room, before a new group is opened."""
    with FleetHarness() as bed:
        set_of(bed, 150, terminate_seconds=0)
        _delete(bed, *range(10))
        bed.advance(60)
        _scale(bed, 200)
        made = bed.scale_set("web")
        assert made is not None
        assert made.groups == ("web/0", "web/1")
        assert [len(bed.machines(group)) for group in made.groups] == [100, 100]


@pytest.mark.spec("T7", "E4")
def test_instances_are_dealt_out_over_domains() -> None:
    """Update and fault domains are filled evenly."""
    with FleetHarness() as bed:
        set_of(bed, 10, update_domains=5, fault_domains=2)
        machines = list(bed.machines(GROUP).values())
        assert [m.update_domain for m in machines] == [0, 1, 2, 3, 4] * 2
        assert [m.fault_domain for m in machines] == [0, 1] * 5


@pytest.mark.spec("T4", "T7")
def test_a_whole_set_goes() -> None:
    """Deleting a set announces every instance; it and its groups are gone with the last one."""
    with FleetHarness() as bed:
        set_of(bed, 120)
        bed.do(DeleteSet(set="web", operation="op"))
        assert len(shown(bed, GROUP)) + len(shown(bed, "web/1")) == 120
        assert bed.refusal(Scale(set="web", operation="more", capacity=200)).status == 409
        bed.advance(300)
        assert bed.scale_set("web") is not None
        bed.advance(30)
        assert bed.scale_set("web") is None
        assert not bed.exists(GROUP)
        assert not bed.exists("web/1")
        assert succeeded(bed, "op")
        assert bed.refusal(Scale(set="web", operation="more", capacity=200)).status == 404


@pytest.mark.spec("T4")
def test_an_empty_set_goes_at_once() -> None:
    """Nothing to announce, nothing to wait for; its name is free again."""
    with FleetHarness() as bed:
        set_of(bed, 0)
        bed.do(DeleteSet(set="web", operation="op"))
        assert bed.scale_set("web") is None
        assert succeeded(bed, "op")
        set_of(bed, 1)


@pytest.mark.spec("T4")
def test_deleting_a_set_whose_instances_are_all_leaving() -> None:
    """The operation has succeeded when the set is gone, and not while it is still there."""
    with FleetHarness() as bed:
        set_of(bed, 2)
        _delete(bed, 0, 1)
        bed.do(DeleteSet(set="web", operation="op"))
        assert bed.operation("op").status is OperationStatus.RUNNING
        bed.advance(330)
        assert bed.scale_set("web") is None
        assert succeeded(bed, "op", "delete")


@pytest.mark.spec("T4")
@pytest.mark.parametrize("how", ["cancelled", "failed"])
def test_a_set_that_could_not_go_can_be_deleted_again(how: str) -> None:
    """If an instance stays behind, so does the set; the operation tells, and may be repeated."""
    with FleetHarness() as bed:
        set_of(bed, 2)
        bed.do(DeleteSet(set="web", operation="op"))
        if how == "cancelled":
            cancel(bed, GROUP, "web_0")
        else:
            bed.driver.fail = "disk is locked"
        bed.advance(330)
        bed.driver.fail = ""
        assert bed.scale_set("web") is not None
        assert bed.operation("op").status is OperationStatus.FAILED
        bed.do(DeleteSet(set="web", operation="again"))
        bed.advance(330)
        assert bed.scale_set("web") is None
        assert succeeded(bed, "again")


@pytest.mark.spec("E3", "T7")
def test_an_evicted_spot_instance() -> None:
    """Eviction policy Delete takes an instance out of its set; Deallocate leaves it there."""
    for policy, left in ((EvictionPolicy.DELETE, [1]), (EvictionPolicy.DEALLOCATE, [0, 1])):
        with FleetHarness() as bed:
            set_of(bed, 2, priority=Priority.SPOT, eviction=policy)
            bed.do(OperateInstances(set="web", operation="op", action=Evict, instances=(0,)))
            assert [event.type for event in bed.events(GROUP)] == [EventType.PREEMPT]
            bed.advance(40)
            assert list(bed.machines(GROUP)) == names("web", left)


@pytest.mark.spec("T7")
def test_unknown_instances_are_refused() -> None:
    """An id the set does not have is refused, and nothing is done to the others."""
    with FleetHarness() as bed:
        set_of(bed, 2)
        for wish in (
            OperateInstances(set="web", operation="op", action=Delete, instances=(0, 7)),
            UpgradeInstances(set="web", instances=(0, 7)),
            ProtectInstances(set="web", instances=(0, 7)),
        ):
            error = bed.refusal(wish)
            assert (error.code, error.status) == ("UnknownInstance", 404)
        assert bed.events(GROUP) == []


@pytest.mark.spec("T7")
def test_names_as_long_as_they_may_be() -> None:
    """A set with the longest name allowed can be polled, restarted and deleted like any other."""
    name = "n" * 200
    with FleetHarness() as bed:
        set_of(bed, 1, name=name)
        operate(bed, Restart, f"{name}/0", f"{name}_0")
        approve(bed, f"{name}/0")
        bed.advance(60)
        assert succeeded(bed, "op")
        bed.do(DeleteSet(set=name, operation="delete"))
        bed.advance(330)
        assert bed.scale_set(name) is None


@pytest.mark.spec("T7")
def test_a_set_does_not_take_over_a_scope() -> None:
    """If a scope has the name that a group would get, the set is refused as a whole."""
    with FleetHarness() as bed:
        machine = (Machine(name="mine"),)
        bed.do(CreateScope(scope="web/0", kind=ScopeKind.AVAILABILITY_SET, machines=machine))
        assert bed.refusal(CreateSet(set="web", capacity=3)).code == "ScopeExists"
        assert bed.scale_set("web") is None
        assert list(bed.machines("web/0")) == ["mine"]


@pytest.mark.spec("T3", "E1")
def test_settings_reach_all_groups() -> None:
    """A set's rules are those of its groups, the present ones and those to come."""
    with FleetHarness() as bed:
        set_of(bed, 101)
        bed.do(UpdateSet(set="web", rules=Rules(reboot_seconds=77)))
        _scale(bed, 201)
        assert {bed.scope(f"web/{n}").rules.reboot_seconds for n in range(3)} == {77}
        assert bed.scope("web/2").rules.idle_seconds == DAY
