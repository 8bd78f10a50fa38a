"""Machines with names of their own in a Flexible scale set (C1, T3, T7)."""

import pytest

from fairwarning.core.commands import DeleteSet, JoinSet, Scale, UpdateSet
from fairwarning.core.model import Machine
from tests.fixtures.fleet import FleetHarness

pytestmark = pytest.mark.spec("C1")

GROUP = "web/0"


def join(name: str, scope: str = GROUP) -> JoinSet:
    """Return the command that adds a machine of this name."""
    return JoinSet(set="web", machine=Machine(name=name, size="Standard_D2s_v5"), scope=scope)


def test_a_machine_joins_a_set(harness: FleetHarness) -> None:
    """It keeps its name, gets the next instance id, and spreads over the update domains."""
    harness.make_scale_set(2, flexible=True)
    harness.do(join("db"))
    machines = harness.machines(GROUP)
    assert list(machines) == ["web_0", "web_1", "db"]
    assert (machines["db"].instance, machines["db"].update_domain) == (2, 2)
    harness.do(Scale(set="web", operation="more", capacity=4))
    assert list(harness.machines(GROUP)) == ["web_0", "web_1", "db", "web_3"]


def test_the_first_machine_of_a_set(harness: FleetHarness) -> None:
    """A set without instances gets its first placement group."""
    harness.make_scale_set(0, flexible=True)
    harness.do(join("db"))
    scale_set = harness.scale_set("web")
    assert scale_set is not None
    assert scale_set.groups == (GROUP,)
    assert harness.scope(GROUP).owner == "web"


def test_a_full_placement_group(harness: FleetHarness) -> None:
    """The next one is used; a caller that expects another one has to read the set again."""
    harness.make_scale_set(100, flexible=True)
    assert harness.refusal(join("db")).code == "Changed"
    harness.do(join("db", "web/1"))
    assert list(harness.machines("web/1")) == ["db"]


@pytest.mark.parametrize("name", ["web_0", "web_7", "WEB_7", "db"])
def test_names_of_other_instances(harness: FleetHarness, name: str) -> None:
    """A name that an instance has, or may get later, is refused."""
    harness.make_scale_set(1, flexible=True)
    harness.do(join("db"))
    assert harness.refusal(join(name)).code == "MachineExists"


@pytest.mark.parametrize("name", ["web_db", "web", "7", "web_"])
def test_names_of_no_other_instance(harness: FleetHarness, name: str) -> None:
    """What only resembles the name of an instance is allowed."""
    harness.make_scale_set(1, flexible=True)
    harness.do(join(name))
    assert list(harness.machines(GROUP)) == ["web_0", name]


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
