"""Machines that are added to a scope, leave it, or join a Flexible set (C1, M16, T3, T7, IL11)."""

import pytest

from fairwarning.core.commands import (
    AddMachines,
    CreateScope,
    Delete,
    DeleteSet,
    JoinSet,
    Scale,
    UpdateMachine,
    UpdateSet,
)
from fairwarning.core.model import Machine, ScopeKind
from tests.fixtures.fleet import FleetHarness

GROUP = "web/0"


def join(name: str, scope: str = GROUP) -> JoinSet:
    """Return the command that adds a machine of this name."""
    return JoinSet(set="web", machine=Machine(name=name, size="Standard_D2s_v5"), scope=scope)


@pytest.mark.spec("C1")
def test_a_machine_joins_a_set(harness: FleetHarness) -> None:
    """It keeps its name, gets the next instance id, and spreads over the update domains."""
    harness.make_scale_set(2, flexible=True)
    harness.do(join("db"))
    machines = harness.machines(GROUP)
    assert list(machines) == ["web_0", "web_1", "db"]
    assert (machines["db"].instance, machines["db"].update_domain) == (2, 2)
    harness.do(Scale(set="web", operation="more", capacity=4))
    assert list(harness.machines(GROUP)) == ["web_0", "web_1", "db", "web_3"]


@pytest.mark.spec("C1")
def test_the_first_machine_of_a_set(harness: FleetHarness) -> None:
    """A set without instances gets its first placement group."""
    harness.make_scale_set(0, flexible=True)
    harness.do(join("db"))
    scale_set = harness.scale_set("web")
    assert scale_set is not None
    assert scale_set.groups == (GROUP,)
    assert harness.scope(GROUP).owner == "web"


@pytest.mark.spec("C1")
def test_a_full_placement_group(harness: FleetHarness) -> None:
    """The next one is used; a caller that expects another one has to read the set again."""
    harness.make_scale_set(100, flexible=True)
    assert harness.refusal(join("db")).code == "Changed"
    harness.do(join("db", "web/1"))
    assert list(harness.machines("web/1")) == ["db"]


@pytest.mark.spec("C1")
@pytest.mark.parametrize("name", ["web_0", "web_7", "WEB_7", "db"])
def test_names_of_other_instances(harness: FleetHarness, name: str) -> None:
    """A name that an instance has, or may get later, is refused."""
    harness.make_scale_set(1, flexible=True)
    harness.do(join("db"))
    assert harness.refusal(join(name)).code == "MachineExists"


@pytest.mark.spec("C1")
@pytest.mark.parametrize("name", ["web_db", "web", "7", "web_"])
def test_names_of_no_other_instance(harness: FleetHarness, name: str) -> None:
    """What only resembles the name of an instance is allowed."""
    harness.make_scale_set(1, flexible=True)
    harness.do(join(name))
    assert list(harness.machines(GROUP)) == ["web_0", name]


@pytest.mark.spec("C1")
def test_sets_that_cannot_be_joined() -> None:
    """A Uniform set, a full set and a set in deletion."""
    with FleetHarness() as harness:
        harness.make_scale_set(1)
        assert harness.refusal(join("db")).code == "NotFlexible"
    with FleetHarness() as harness:
        harness.make_scale_set(1000, flexible=True)
        assert harness.refusal(join("db", "web/10")).code == "SetFull"
    with FleetHarness() as harness:
        harness.make_scale_set(1, flexible=True, terminate_seconds=300)
        harness.poll(GROUP)
        harness.do(DeleteSet(set="web", operation="end"))
        assert harness.refusal(join("db")).code == "SetDeleting"


@pytest.mark.spec("C1")
def test_a_set_in_deletion_does_not_change(harness: FleetHarness) -> None:
    """It is neither scaled nor updated, nor deleted a second time."""
    harness.make_scale_set(1)
    harness.do(DeleteSet(set="web", operation="end"))
    for command in (
        DeleteSet(set="web", operation="again"),
        Scale(set="web", operation="more", capacity=2),
        UpdateSet(set="web", size="large"),
    ):
        assert harness.refusal(command).code == "SetDeleting"


def _add(scope: str, *names: str) -> AddMachines:
    return AddMachines(scope=scope, machines=tuple(Machine(name=name) for name in names))


@pytest.mark.spec("M16")
@pytest.mark.parametrize(
    ("command", "code"),
    [
        (_add("av", "new", "av1"), "MachineExists"),
        (_add("vm", "second"), "FixedScope"),
        (_add("web/0", "web_9"), "FixedScope"),
        (_add("nowhere", "new"), "UnknownScope"),
        (_add("av", *(f"new{n}" for n in range(195))), "ScopeFull"),
    ],
)
def test_machines_that_cannot_be_added(
    harness: FleetHarness, command: AddMachines, code: str
) -> None:
    """Duplicates, a second standalone machine, set members and too many are refused."""
    harness.availability_set()
    harness.standalone()
    harness.make_scale_set(1)
    assert harness.refusal(command).code == code
    assert len(harness.machines("av")) == 6


@pytest.mark.spec("M16")
def test_a_standalone_scope_ends_with_its_machine(harness: FleetHarness) -> None:
    """The scope is deleted with its machine, and its name can be used for a new scope."""
    for names in ("", "ab"):
        machines = tuple(Machine(name=name) for name in names)
        command = CreateScope(scope="vm", kind=ScopeKind.STANDALONE, machines=machines)
        assert harness.refusal(command).code == "OneMachine"
    harness.make_enabled("vm")
    harness.operate(Delete, "vm", "vm", name="delete")
    harness.advance(30)
    assert not harness.exists("vm")
    assert harness.succeeded("delete")
    harness.standalone()
    assert not harness.scope("vm").enabled
    assert harness.poll("vm")["DocumentIncarnation"] == 1


@pytest.mark.spec("M16")
def test_a_change_to_the_same_value_writes_nothing(harness: FleetHarness) -> None:
    """The scope keeps its version."""
    harness.standalone("vm", address="10.0.0.4")
    version = harness.scope("vm").version
    harness.do(UpdateMachine(scope="vm", machine="vm", address="10.0.0.4"))
    assert harness.scope("vm").version == version
