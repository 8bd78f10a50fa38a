"""A machine's ARM network interface, as the machine sees it in its instance metadata (M19)."""

from typing import Any

import pytest

from fairwarning.metadata.interface_finder import InterfaceFinder
from fairwarning.metadata.interfaces import NetworkInterface, derived
from tests.arm.bodies import AV, AV_SCOPE, COMPUTE, VM_SCOPE, created, machine
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("M19")

NETWORK = "/resourceGroups/rg/providers/Microsoft.Network"
NIC = f"{NETWORK}/networkInterfaces/nic"
VNET = f"{NETWORK}/virtualNetworks/net"


def seen(arm: ArmHarness, scope: str = VM_SCOPE, name: str = "vm") -> NetworkInterface:
    """Return the interface that a machine sees."""
    reader = arm.fleet.reader
    (place,) = [
        place for place in arm.run(reader.find_machines(scope=scope)) if place.machine.name == name
    ]
    work = InterfaceFinder(reader).find(arm.scope(scope), place.machine, place.number)
    return arm.run(work)


def nic(
    arm: ArmHarness,
    path: str = NIC,
    network: str = VNET,
    **properties: Any,  # noqa: ANN401  (JSON)
) -> dict[str, Any]:
    """Create a network interface in a subnet of a virtual network; return its document."""
    arm.group(path.split("/")[2])
    subnets = [{"name": "front", "properties": {"addressPrefix": "10.7.8.0/22"}}]
    created(arm.put(network, {"location": "local", "properties": {"subnets": subnets}}))
    subnet = {"subnet": {"id": f"{SUBSCRIPTION}{network}/subnets/front"}}
    configurations = [{"name": "first", "properties": {**subnet, **properties}}]
    body = {"location": "local", "properties": {"ipConfigurations": configurations}}
    return created(arm.put(path, body))


def with_interfaces(*paths: str) -> dict[str, Any]:
    """Return the properties of a machine with these network interfaces."""
    return {"networkProfile": {"networkInterfaces": [{"id": SUBSCRIPTION + p} for p in paths]}}


def test_a_machine_sees_its_arm_interface() -> None:
    """Address, subnet and MAC address are those that Azure's tools show, also after a restart."""
    with ArmHarness() as arm:
        document = nic(arm)["properties"]
        machine(arm, **with_interfaces(NIC))
        shown = NetworkInterface(
            document["ipConfigurations"][0]["properties"]["privateIPAddress"],
            22,
            document["macAddress"].replace("-", ""),
        )
        assert seen(arm) == shown
        assert shown.subnet == "10.7.8.0"
        arm.restart()
        assert seen(arm) == shown


def test_the_primary_interface_counts() -> None:
    """And its primary address, if there are several."""
    with ArmHarness() as arm:
        nic(arm, f"{NETWORK}/networkInterfaces/other", privateIPAddress="10.7.8.8")
        first = {"name": "a", "properties": {"privateIPAddress": "10.9.0.4", "primary": False}}
        second = {"name": "b", "properties": {"privateIPAddress": "10.9.0.5", "primary": True}}
        properties = {"ipConfigurations": [first, second]}
        created(arm.put(NIC, {"location": "local", "properties": properties}))
        links = with_interfaces(f"{NETWORK}/networkInterfaces/other", NIC)
        links["networkProfile"]["networkInterfaces"][1]["properties"] = {"primary": True}
        machine(arm, **links)
        assert (seen(arm).address, seen(arm).subnet, seen(arm).prefix) == (
            "10.9.0.5",
            "10.9.0.0",
            16,
        )


@pytest.mark.parametrize("properties", [{}, {"networkProfile": {"networkInterfaces": []}}])
def test_a_machine_without_an_arm_interface(properties: dict[str, Any]) -> None:
    """It has an interface by its number."""
    with ArmHarness() as arm:
        nic(arm)
        machine(arm, **properties)
        assert seen(arm) == next(derived(1))


def test_machines_of_a_set_with_the_same_arm_address() -> None:
    """Each still has its own: the oldest one has that of the interface."""
    with ArmHarness() as arm:
        arm.group()
        created(arm.put(AV, {"location": "local", "properties": {}}))
        for name in ("a", "b", "c"):
            path = f"{NETWORK}/networkInterfaces/{name}"
            address = "10.7.8.10" if name == "c" else "10.7.8.9"  # in networks of their own
            nic(arm, path, f"{NETWORK}/virtualNetworks/{name}", privateIPAddress=address)
            machine(
                arm,
                f"{COMPUTE}/virtualMachines/{name}",
                availabilitySet={"id": SUBSCRIPTION + AV},
                **with_interfaces(path),
            )
        shown = {name: seen(arm, AV_SCOPE, name) for name in ("a", "b", "c")}
        assert (shown["a"].address, shown["c"].address) == ("10.7.8.9", "10.7.8.10")
        assert shown["b"] == next(derived(2))
        assert len({interface.mac for interface in shown.values()}) == 3
