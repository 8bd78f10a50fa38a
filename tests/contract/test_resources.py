"""Resources are created, changed and deleted in one transaction with their entity."""

import pytest

from fairwarning.core import resources
from fairwarning.core.commands import (
    AddMachines,
    Command,
    CreateScope,
    CreateSet,
    Delete,
    DeleteSet,
    Evict,
    OperateInstances,
    ProtectInstances,
    Remove,
    Restart,
    Scale,
    Write,
)
from fairwarning.core.messages import ReleaseResource
from fairwarning.core.model import (
    EvictionPolicy,
    Machine,
    OperationStatus,
    Priority,
    Resource,
    ScopeKind,
)
from fairwarning.core.resources import E
from tests.fixtures.fleet import NOON, FleetHarness

GROUP = Write(resource="group::rg", name="rg", body="{}")


def vm(name: str = "vm", **machine: object) -> Write:
    """The command that creates a standalone machine and its resource."""
    create = CreateScope(
        scope=name,
        kind=ScopeKind.STANDALONE,
        machines=(Machine(name=name, **machine),),  # type: ignore[arg-type]
    )
    return Write(
        resource=f"vm:rg:{name}", name=name, body="{}", scope=name, machine=name, follow=(create,)
    )


def test_a_resource_is_created_with_its_entity(harness: FleetHarness) -> None:
    """Scope and resource are created together, or not at all."""
    harness.do(vm())
    written = harness.resource("vm:rg:vm")
    assert written is not None
    assert (written.scope, written.machine, written.version) == ("vm", "vm", 1)
    assert written.written_at == NOON
    assert harness.machines("vm")["vm"].resource == "vm:rg:vm"
    twice = Write(resource="vm:rg:other", body="{}", follow=vm().follow)
    assert harness.refusal(twice).code == "ScopeExists"
    assert harness.resource("vm:rg:other") is None


def test_a_resource_describes_a_machine_from_a_later_write_on(harness: FleetHarness) -> None:
    """The machine then belongs to it; further writes leave that as it is."""
    harness.do(*vm().follow)
    harness.do(Write(resource="a", body="{}"))
    for body in ("{}", '{"n":2}'):
        harness.do(Write(resource="a", body=body, scope="vm", machine="vm"))
        assert harness.machines("vm")["vm"].resource == "a"


def test_a_resource_needs_an_entity(harness: FleetHarness) -> None:
    """A resource needs an existing scope, or a machine or set that has no resource yet."""
    harness.do(vm())
    for write, code in (
        (Write(resource="a", body="{}", scope="none"), "UnknownScope"),
        (Write(resource="a", body="{}", scope="none", machine="m"), "UnknownScope"),
        (Write(resource="a", body="{}", scope="vm", machine="m"), "UnknownMachine"),
        (Write(resource="a", body="{}", set="none"), "UnknownSet"),
        (Write(resource="a", body="{}", scope="vm", machine="vm"), "MachineExists"),
    ):
        assert harness.refusal(write).code == code
        assert harness.resource("a") is None


def test_concurrent_writes_conflict(harness: FleetHarness) -> None:
    """Of two concurrent writes, the second gets a conflict and does not undo the first."""
    harness.do(Write(resource="a", body='{"n":1}', at=0))
    assert harness.refusal(Write(resource="a", body="{}", at=0)).code == "Changed"
    harness.do(Write(resource="a", body='{"n":2}', at=1))
    assert harness.refusal(Write(resource="a", body='{"n":3}', at=1)).code == "Changed"
    written = harness.resource("a")
    assert written is not None
    assert written.body == '{"n":2}'


@pytest.mark.parametrize("how", ["delete", "evict"])
def test_a_resource_is_deleted_with_its_machine(harness: FleetHarness, how: str) -> None:
    """A resource is deleted together with its machine."""
    spot = {"priority": Priority.SPOT, "eviction": EvictionPolicy.DELETE}
    harness.do(vm(**spot))
    kind = Delete if how == "delete" else Evict
    harness.do(kind(scope="vm", operation="o", machines=("vm",)))
    assert harness.resource("vm:rg:vm") is not None
    harness.advance(60)
    assert not harness.exists("vm")
    assert harness.resource("vm:rg:vm") is None


def test_resources_of_sets_and_instances_are_deleted_with_them(harness: FleetHarness) -> None:
    """The resource of an instance is deleted together with the instance."""
    create = CreateSet(set="web", capacity=2)
    harness.do(Write(resource="set:rg:web", body="{}", set="web", follow=(create,)))
    protect = ProtectInstances(set="web", instances=(1,))
    harness.do(
        Write(resource="i:rg:web/1", body="{}", scope="web/0", machine="web_1", follow=(protect,))
    )
    assert harness.machines("web/0")["web_1"].protected
    harness.do(OperateInstances(set="web", operation="one", action=Delete, instances=(1,)))
    harness.advance(60)
    assert harness.resource("i:rg:web/1") is None
    assert harness.resource("set:rg:web") is not None
    harness.do(DeleteSet(set="web", operation="all"))
    harness.advance(60)
    assert harness.resource("set:rg:web") is None


def test_a_group_is_deleted_last(harness: FleetHarness) -> None:
    """A group exists until its last resource is deleted, and accepts no new ones meanwhile."""
    harness.do(GROUP)
    harness.do(vm(terminate_seconds=300))
    harness.do(Write(resource="net:rg:a", body="{}"))
    harness.poll("vm")
    delete = Delete(scope="vm", operation="o", machines=("vm",))
    harness.do(
        Remove(resource=GROUP.resource, operation="o", others=("net:rg:a",), follow=(delete,))
    )
    assert harness.refusal(GROUP).code == "BeingRemoved"
    inside = Write(resource="net:rg:b", body="{}", within=GROUP.resource)
    assert harness.refusal(inside).code == "BeingRemoved"
    harness.advance(299)
    assert harness.resource(GROUP.resource) is not None
    harness.advance(60)
    assert harness.operation("o").status is OperationStatus.SUCCEEDED
    assert harness.operation("o").group == "rg", "a token of the group may read it"
    for gone in (GROUP.resource, "net:rg:a", "vm:rg:vm"):
        assert harness.resource(gone) is None
    missing = Write(resource="net:rg:b", body="{}", within=GROUP.resource)
    assert harness.refusal(missing).code == "UnknownResource"


@pytest.mark.parametrize("name", ["vm:rg:vm", "set:rg:web", "net:rg:a"])
def test_a_removal_waits_only_for_removals(harness: FleetHarness, name: str) -> None:
    """A resource that is not in deletion is never waited for: the caller has to read again."""
    harness.do(GROUP)
    harness.do(vm())
    create = CreateSet(set="web", capacity=1)
    harness.do(Write(resource="set:rg:web", body="{}", set="web", follow=(create,)))
    harness.do(Write(resource="net:rg:a", body="{}"))
    remove = Remove(resource=GROUP.resource, operation="o", awaits=(name,))
    assert harness.refusal(remove).code == "Changed"


def test_an_availability_set_is_deleted_when_empty(harness: FleetHarness) -> None:
    """An availability set can be empty, and cannot be deleted before its machines."""
    create = CreateScope(scope="av", kind=ScopeKind.AVAILABILITY_SET, machines=())
    harness.do(Write(resource="as:rg:av", body="{}", scope="av", follow=(create,)))
    harness.do(AddMachines(scope="av", machines=(Machine(name="m"),)))
    refused = harness.refusal(Remove(resource="as:rg:av", operation="early"))
    assert refused.code == "NotEmpty"
    harness.do(Delete(scope="av", operation="o", machines=("m",)))
    harness.advance(60)
    harness.do(Remove(resource="as:rg:av", operation="late"))
    assert harness.resource("as:rg:av") is None
    assert not harness.exists("av")


def test_the_resource_of_a_machine_is_removed_alone(harness: FleetHarness) -> None:
    """Without a delete that follows, only what describes the machine goes."""
    harness.do(vm())
    harness.do(Remove(resource="vm:rg:vm", operation="o"))
    assert harness.resource("vm:rg:vm") is None
    assert harness.exists("vm")


def test_a_set_that_got_a_machine_while_it_was_removed(harness: FleetHarness) -> None:
    """It stays with its machine, and can be removed later."""
    create = CreateScope(
        scope="av", kind=ScopeKind.AVAILABILITY_SET, machines=(Machine(name="old"),)
    )
    harness.do(Write(resource="as:rg:av", body="{}", scope="av", follow=(create,)))
    delete = Delete(scope="av", operation="o", machines=("old",))
    harness.do(Remove(resource="as:rg:av", operation="o", follow=(delete,)))
    harness.do(AddMachines(scope="av", machines=(Machine(name="new"),)))
    harness.advance(60)
    kept = harness.resource("as:rg:av")
    assert kept is not None
    assert (kept.removed_by, list(harness.machines("av"))) == ("", ["new"])


class _NoEntities:
    def get(self, kind: type[E], name: str) -> E | None:
        return None


def test_a_resource_is_released_by_its_user_only() -> None:
    """It stays in use by its user, whoever else releases it."""
    used = Resource(id="nic", used_by="vm")
    release = ReleaseResource(resource="nic", user="other", remove=True)
    assert resources.decide(used, release, NOON, _NoEntities()).entity is used


def test_following_commands_belong_to_one_operation(harness: FleetHarness) -> None:
    """A repeat is recognized as a whole; commands of other operations are refused."""
    harness.do(CreateSet(set="web", capacity=3))
    scale = Scale(set="web", capacity=1, operation="o")
    write = Write(resource="s", body="{}", set="web", operation="o", follow=(scale,))
    operation = harness.do(write)
    assert operation is not None
    assert operation.planned == 2
    assert harness.do(write) == harness.operation("o")
    harness.advance(60)
    assert harness.operation("o").status is OperationStatus.SUCCEEDED
    other: Command = Restart(scope="web/0", operation="p", machines=("web_0",))
    refused = harness.refusal(Write(resource="s", body="{}", operation="q", follow=(other,)))
    assert (refused.code, "same operation" in refused.message) == ("BadCommand", True)


def test_a_group_waits_for_running_deletes(harness: FleetHarness) -> None:
    """The group is deleted after them; if one stays, the group stays with the reason."""
    for again, fail in (("a", ""), ("b", "the disk is on fire")):
        harness.do(GROUP)
        harness.do(vm(again, terminate_seconds=300))
        harness.poll(again)
        harness.do(Delete(scope=again, operation=f"delete {again}", machines=(again,)))
        waits = (f"vm:rg:{again}",)
        harness.do(Remove(resource=GROUP.resource, operation=f"remove {again}", awaits=waits))
        harness.advance(299)
        assert harness.operation(f"remove {again}").status is OperationStatus.RUNNING
        harness.driver.fail = fail
        harness.advance(60)
        ended = harness.operation(f"remove {again}")
        gone = harness.resource(GROUP.resource) is None
        assert (ended.status is OperationStatus.SUCCEEDED, gone) == (not fail, not fail)
        assert fail in ended.error
        assert (ended.done, ended.failed) == ((0, 1) if fail else (1, 0))


def test_a_group_waits_for_a_set_that_is_being_deleted(harness: FleetHarness) -> None:
    """The removal of a group ends with that of a set in it, which began before."""
    harness.do(GROUP)
    create = CreateSet(set="web", capacity=2)
    harness.do(Write(resource="set:rg:web", body="{}", set="web", follow=(create,)))
    harness.do(DeleteSet(set="web", operation="set"))
    harness.do(Remove(resource=GROUP.resource, operation="group", awaits=("set:rg:web",)))
    assert harness.operation("group").status is OperationStatus.RUNNING
    harness.advance(60)
    assert harness.succeeded("set")
    assert harness.succeeded("group")
    assert harness.resource(GROUP.resource) is None


def test_what_describes_something_is_not_removed_with_its_user(harness: FleetHarness) -> None:
    """A machine and a set that a removed resource used and owned stay, and are free again."""
    harness.do(vm())
    create = CreateSet(set="web", capacity=1)
    harness.do(Write(resource="set:rg:web", body="{}", set="web", follow=(create,)))
    both = ("vm:rg:vm", "set:rg:web")
    harness.do(Write(resource="net:rg:a", body="{}", uses=both, owns=both))
    harness.do(Remove(resource="net:rg:a", operation="o"))
    for name in both:
        kept = harness.resource(name)
        assert kept is not None
        assert kept.used_by == ""
