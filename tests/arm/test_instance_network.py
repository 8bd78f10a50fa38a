"""A machine's ARM network interface, as the machine sees it in its instance metadata (M19)."""

import json
from typing import Any

import pytest

from fairwarning.core.model import Ref
from fairwarning.metadata import interfaces
from fairwarning.metadata.interfaces import InterfaceFinder, NetworkInterface, derived
from fairwarning.service.reader import FleetReader
from tests.arm.bodies import (
    AV,
    AV_SCOPE,
    COMPUTE,
    NETWORK,
    NIC,
    VM,
    VM_SCOPE,
    created,
    link,
    machine,
    network,
    nic,
    put,
    vm,
)
from tests.fixtures.arm import ArmHarness

pytestmark = pytest.mark.spec("M19")


def seen(
    arm: ArmHarness,
    scope: str = VM_SCOPE,
    name: str = "vm",
    finder: InterfaceFinder | None = None,
) -> NetworkInterface:
    """Return the interface that a machine sees."""
    reader = arm.fleet.reader
    (place,) = [
        place for place in arm.run(reader.find_machines(scope=scope)) if place.machine.name == name
    ]
    finder = finder or InterfaceFinder(reader)
    return arm.run(finder.find(arm.scope(scope), place.machine, place.number))


def test_a_machine_sees_its_arm_interface(arm: ArmHarness) -> None:
    """Address, subnet and MAC address are those that Azure's tools show, also after a restart."""
    network(arm, "10.7.8.0/22")
    document = nic(arm)["properties"]
    vm(arm, VM, NIC)
    shown = NetworkInterface(
        document["ipConfigurations"][0]["properties"]["privateIPAddress"],
        22,
        document["macAddress"].replace("-", ""),
    )
    assert seen(arm) == shown
    assert shown.subnet == "10.7.8.0"
    arm.restart()
    assert seen(arm) == shown


def test_the_primary_interface_counts(arm: ArmHarness) -> None:
    """And its primary address, if there are several."""
    other = f"{NETWORK}/networkInterfaces/other"
    put(arm, other)
    first = {"name": "a", "properties": {"privateIPAddress": "10.9.0.4", "primary": False}}
    second = {"name": "b", "properties": {"privateIPAddress": "10.9.0.5", "primary": True}}
    put(arm, NIC, ipConfigurations=[first, second])
    links = [link(other), {**link(NIC), "properties": {"primary": True}}]
    vm(arm, networkProfile={"networkInterfaces": links})
    shown = seen(arm)
    assert (shown.address, shown.subnet, shown.prefix) == ("10.9.0.5", "10.9.0.0", 16)


@pytest.mark.parametrize("properties", [{}, {"networkProfile": {"networkInterfaces": []}}])
def test_a_machine_without_an_arm_interface(arm: ArmHarness, properties: dict[str, Any]) -> None:
    """It has an interface by its number."""
    network(arm)
    nic(arm)
    machine(arm, **properties)
    assert seen(arm) == next(derived(1))


def in_set(arm: ArmHarness, name: str, address: str, **members: Any) -> None:  # noqa: ANN401
    """Create a machine in the availability set, with an interface in a network of its own."""
    own = f"{NETWORK}/networkInterfaces/{name}"
    lan = f"{NETWORK}/virtualNetworks/{name}"
    network(arm, "10.7.8.0/22", lan)
    nic(arm, own, subnet=link(f"{lan}/subnets/front"), privateIPAddress=address)
    profile = {"networkInterfaces": [link(own)]}
    properties = {"availabilitySet": link(AV), "networkProfile": profile}
    body = {"location": "local", "properties": properties, **members}
    created(arm.put(f"{COMPUTE}/virtualMachines/{name}", body))


def test_machines_of_a_set_see_what_azures_tools_show(arm: ArmHarness) -> None:
    """Two networks may have the same address."""
    created(arm.put(AV, {"location": "local", "properties": {}}))
    for name, address in (("a", "10.7.8.9"), ("b", "10.7.8.9"), ("c", "10.7.8.10")):
        in_set(arm, name, address)
    shown = [seen(arm, AV_SCOPE, name) for name in ("a", "b", "c")]
    assert [each.address for each in shown] == ["10.7.8.9", "10.7.8.9", "10.7.8.10"]
    assert len({each.mac for each in shown}) == 3


class Documents:
    """Counts the bytes of documents that are parsed, and the resources that are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes = 0
        self.read = 0
        monkeypatch.setattr(interfaces, "json", self)
        read_all = FleetReader.read_all

        async def counted(reader: FleetReader, refs: list[Ref]) -> object:
            self.read += len(refs)
            return await read_all(reader, refs)

        monkeypatch.setattr(FleetReader, "read_all", counted)

    def loads(self, body: str) -> object:
        """Parse JSON."""
        self.bytes += len(body)
        return json.loads(body)


def test_a_document_is_parsed_once(arm: ArmHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cost of an answer grows neither with the members of a set nor with their documents."""
    created(arm.put(AV, {"location": "local", "properties": {}}))
    for number in range(5):
        in_set(arm, f"vm{number}", f"10.7.8.{number + 9}", tags={"x": "y" * 200})
    finder = InterfaceFinder(arm.fleet.reader)
    counted = Documents(monkeypatch)
    first = seen(arm, AV_SCOPE, "vm3", finder)
    assert counted.read == 3  # the machine, its interface and its network
    counted.bytes = counted.read = 0
    assert seen(arm, AV_SCOPE, "vm3", finder) == first
    assert (counted.bytes, counted.read) == (0, 3)
    subnet = link(f"{NETWORK}/virtualNetworks/vm3/subnets/front")
    nic(arm, f"{NETWORK}/networkInterfaces/vm3", subnet=subnet, privateIPAddress="10.7.8.77")
    assert seen(arm, AV_SCOPE, "vm3", finder).address == "10.7.8.77"
    assert counted.bytes > 0
