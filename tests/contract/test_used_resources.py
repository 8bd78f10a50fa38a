"""Resources that use others: a machine its interface, an interface its public address (IC9)."""

import pytest

from fairwarning.core.commands import CreateScope, Delete, Remove, Write
from fairwarning.core.errors import Conflict, NotFound
from fairwarning.core.model import Machine, ScopeKind
from tests.fixtures.fleet import FleetHarness

pytestmark = pytest.mark.spec("C6")

VM, NIC, IP = "vm:rg:vm", "nic:rg:nic", "ip:rg:ip"


def write(name: str, *uses: str, owns: tuple[str, ...] = ()) -> Write:
    """A plain resource that uses others."""
    return Write(resource=name, group="rg", name=name, body="{}", uses=uses, owns=owns)


def machine(*uses: str, owns: tuple[str, ...] = (), again: bool = False) -> Write:
    """The resource of a machine; the first one creates the machine."""
    create = CreateScope(scope="vm", kind=ScopeKind.STANDALONE, machines=(Machine(name="vm"),))
    return Write(
        resource=VM,
        group="rg",
        name="vm",
        body="{}",
        scope="vm",
        machine="vm",
        uses=uses,
        owns=owns,
        follow=() if again else (create,),
    )


def user(harness: FleetHarness, name: str) -> str | None:
    """The user of a resource; None if the resource does not exist."""
    existing = harness.resource(name)
    return existing.used_by if existing else None


def test_one_user_at_a_time(harness: FleetHarness) -> None:
    """A second one is refused and changes nothing; so is what does not exist."""
    harness.do(write(NIC))
    harness.do(machine(NIC))
    with pytest.raises(Conflict, match="in use by another resource"):
        harness.do(write("vm:rg:other", NIC))
    assert harness.resource("vm:rg:other") is None
    with pytest.raises(NotFound):
        harness.do(write("vm:rg:other", "nic:rg:none"))
    assert harness.resource("vm:rg:other") is None


def test_what_is_in_use_is_not_removed(harness: FleetHarness) -> None:
    """Until its user is gone; what the user owned goes with it."""
    for name in (NIC, IP, "disk:rg:own"):
        harness.do(write(name))
    harness.do(write(NIC, IP, owns=(IP,)))
    harness.do(machine(NIC, "disk:rg:own", owns=("disk:rg:own",)))
    with pytest.raises(Conflict, match="in use"):
        harness.do(Remove(resource=NIC, operation="early"))
    harness.do(Delete(scope="vm", machines=("vm",), operation="delete"))
    harness.advance(600)
    assert harness.resource(VM) is None
    assert harness.resource("disk:rg:own") is None
    assert user(harness, NIC) == ""
    harness.do(Remove(resource=NIC, operation="later"))
    assert harness.resource(NIC) is None
    assert harness.resource(IP) is None  # owned by the interface


def test_a_group_is_removed_with_what_is_in_use(harness: FleetHarness) -> None:
    """A user in another group forgets what was removed."""
    harness.do(Write(resource="group::rg", name="rg", body="{}"))
    harness.do(write(IP))
    harness.do(write(NIC, IP))
    harness.do(write("vm:other:vm", NIC, owns=(NIC,)))
    harness.do(Remove(resource="group::rg", others=(IP, NIC), operation="delete"))
    assert user(harness, NIC) is None
    assert user(harness, IP) is None
    survivor = harness.resource("vm:other:vm")
    assert survivor is not None
    assert (survivor.uses, survivor.owns) == ((), ())


def test_both_refer_to_each_other(harness: FleetHarness) -> None:
    """A resource in use says by whom, until it is not used any more."""
    harness.do(write(IP))
    harness.do(write(NIC, IP))
    harness.do(machine(NIC))
    assert (user(harness, IP), user(harness, NIC)) == (NIC, VM)
    harness.do(machine(again=True))
    assert user(harness, NIC) == ""
