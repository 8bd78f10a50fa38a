"""Addresses from subnets (M22, IC8)."""

import pytest

from fairwarning.core import subnets
from fairwarning.core.commands import (
    CreateScope,
    CreateSet,
    Delete,
    OperateInstances,
    Scale,
    UpdateMachine,
)
from fairwarning.core.errors import AddressTaken, Conflict
from fairwarning.core.model import Machine, ScopeKind, Subnet
from tests.fixtures.fleet import FleetHarness

SMALL = "10.0.0.0/29"  # three usable addresses: .4, .5 and .6


def addresses(harness: FleetHarness, scope: str = "web/0") -> list[str]:
    """The addresses of the machines of a scope, in order."""
    return [machine.address for machine in harness.scope(scope).machines.values()]


def create(harness: FleetHarness, capacity: int, subnet: str = SMALL) -> None:
    """Create the set `web`."""
    harness.do(CreateSet(set="web", capacity=capacity, subnet=subnet))


def standalone(name: str, address: str = "", subnet: str = "") -> CreateScope:
    """The command that creates a standalone machine."""
    machines = (Machine(name=name, address=address, subnet=subnet),)
    return CreateScope(scope=name, kind=ScopeKind.STANDALONE, machines=machines)


@pytest.mark.spec("M22")
def test_a_full_subnet_refuses_and_changes_nothing(harness: FleetHarness) -> None:
    """The error says how many addresses are free and how many are needed."""
    create(harness, 2)
    text = f"subnet {SMALL} has 1 of 3 addresses free, but 2 are needed"
    with pytest.raises(Conflict, match=text):
        harness.do(Scale(set="web", operation="grow", capacity=4))
    assert addresses(harness) == ["10.0.0.4", "10.0.0.5"]


@pytest.mark.spec("M22")
def test_a_released_address_is_given_last(harness: FleetHarness) -> None:
    """A new machine is not mistaken for the one that was just deleted."""
    create(harness, 2)
    harness.do(OperateInstances(set="web", operation="out", action=Delete, instances=(0,)))
    harness.advance(60)
    harness.do(Scale(set="web", operation="in", capacity=3))
    assert addresses(harness) == ["10.0.0.5", "10.0.0.6", "10.0.0.4"]


@pytest.mark.spec("M22")
def test_an_address_given_by_hand_is_not_given_again(harness: FleetHarness) -> None:
    """Whether its scope has the same subnet, another one that overlaps, or none."""
    harness.do(standalone("same", "10.0.0.4", SMALL))
    harness.do(standalone("none", "10.0.0.5"))
    harness.do(standalone("larger", subnet="10.0.0.0/24"))
    assert addresses(harness, "larger") == ["10.0.0.6"]
    create(harness, 0)
    with pytest.raises(Conflict, match="has 0 of 3 addresses free, but 1 are needed"):
        harness.do(Scale(set="web", operation="grow", capacity=1))


@pytest.mark.spec("M22")
def test_an_address_can_be_changed(harness: FleetHarness) -> None:
    """The old address becomes free; one that another machine has is refused."""
    create(harness, 2)
    with pytest.raises(Conflict, match=r"another machine has address '10\.0\.0\.5'"):
        harness.do(UpdateMachine(scope="web/0", machine="web_0", address="10.0.0.5"))
    harness.do(UpdateMachine(scope="web/0", machine="web_0", address="10.0.0.6"))
    harness.do(UpdateMachine(scope="web/0", machine="web_1", address="10.0.0.4"))
    harness.do(UpdateMachine(scope="web/0", machine="web_1", size="large"))
    harness.do(UpdateMachine(scope="web/0", machine="web_1", address="10.0.0.4"))
    assert addresses(harness) == ["10.0.0.6", "10.0.0.4"]


def test_the_largest_subnet() -> None:
    """A /16 gives its last address, but not the broadcast address."""
    nearly_full = Subnet(id="10.1.0.0/16", used=f"{(1 << 65_534) - 1:x}", next=5)
    subnet, (machine,) = subnets.assign(nearly_full, [Machine(name="a")])
    assert machine.address == "10.1.255.254"
    with pytest.raises(Conflict, match="has 0 of 65531 addresses free"):
        subnets.assign(subnet, [Machine(name="b")])


@pytest.mark.spec("M22")
def test_an_address_is_claimed_once() -> None:
    """A claimed address is taken until it is released; the last one of the range belongs to it."""
    subnet = Subnet(id=SMALL)
    for address in ("10.0.0.0", "10.0.0.7"):
        claimed = subnets.claim(subnet, address)
        with pytest.raises(AddressTaken, match=address):
            subnets.claim(claimed, address)
        assert subnets.claim(subnets.release(claimed, address), address) == claimed
    for outside in ("9.255.255.255", "10.0.0.8"):
        with pytest.raises(AssertionError):
            subnets.claim(subnet, outside)


@pytest.mark.parametrize(
    ("subnet", "address", "belongs"),
    [
        (SMALL, "10.0.0.0", True),
        (SMALL, "10.0.0.7", True),
        (SMALL, "10.0.0.8", False),
        (SMALL, "fd00::4", False),
        (SMALL, "", False),
        ("", "10.0.0.4", False),
    ],
)
def test_what_belongs_to_a_subnet(subnet: str, address: str, belongs: bool) -> None:
    """The addresses of its network; none belongs to no subnet."""
    assert subnets.contains(subnet, address) is belongs
