"""After any sequence of requests, references and back-references agree."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairwarning.arm.network import subnets
from fairwarning.core.model import Resource
from tests.arm.bodies import COMPUTE, IMAGE, NETWORK, SUBNET, VNET, Json, ip, link, notice
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness
from tests.fixtures.fleet import all_entities
from tests.hostile.arm_requests import Choices

STEPS = 40
_NAMES = ("a", "b")
_REFUSED = {400, 404, 409}  # with nothing changed; 404: for a resource or group that is not there


machine_path = f"{COMPUTE}/virtualMachines/{{}}".format
disk_path = f"{COMPUTE}/disks/{{}}".format
nic_path = f"{NETWORK}/networkInterfaces/{{}}".format
address_path = f"{NETWORK}/publicIPAddresses/{{}}".format


class Requests:
    """Random requests to a group with few names, so that they meet each other."""

    def __init__(self, arm: ArmHarness, draw: Callable[[Sequence[Any]], Any]) -> None:
        self._arm = arm
        self._draw = draw

    def step(self) -> None:
        """Send a random request, or let time pass."""
        self._draw((
            self.put_machine, self.put_machine, self.patch_machine, self.patch_machine,
            self.put_interface, self.put_interface, self.put_others, self.delete, self.delete,
            self.wait, self.change_group,
        ))()  # fmt: skip

    def _request(self, method: str, path: str, body: Json | None = None) -> None:
        response = self._arm.request(method, path, body)
        assert response.status in {200, 201, 202, 204} | _REFUSED, response.body
        assert "microsoft." not in str(response.json) if response.status in _REFUSED else True

    def _name(self) -> str:
        return str(self._draw(_NAMES))

    def _some(self) -> list[str]:
        return list(self._draw(((), ("a",), ("b",), ("a", "b"), ("b", "a"), ("a", "a"))))

    def _option(self) -> str:
        return str(self._draw(("Delete", "Detach")))

    def put_machine(self) -> None:
        """Create a machine, or write it again."""
        properties = {**self._network(), **self._storage(), **self._draw(({}, notice()))}
        body = {"location": "local", "properties": properties}
        self._request("PUT", machine_path(self._name()), body)

    def patch_machine(self) -> None:
        """Attach and detach."""
        properties = self._draw((self._network, self._storage))()
        self._request("PATCH", machine_path(self._name()), {"properties": properties})

    def _network(self) -> Json:
        entries = [
            {**link(nic_path(name)), "properties": {"deleteOption": self._option()}}
            for name in self._some()
        ]
        return {"networkProfile": {"networkInterfaces": entries}}

    def _storage(self) -> Json:
        data = [
            {
                "lun": lun,
                "createOption": "Attach",
                "deleteOption": self._option(),
                "managedDisk": link(disk_path(name)),
            }
            for lun, name in enumerate(self._some())
        ]
        system = self._draw(({}, {"name": "a"}, {"deleteOption": "Delete"}))
        return {"storageProfile": {"imageReference": IMAGE, "osDisk": system, "dataDisks": data}}

    def put_interface(self) -> None:
        """Create an interface, with a public address or without, or change it."""
        inner: Json = {"subnet": link(SUBNET)}
        if name := self._draw(("", "", *_NAMES)):
            options = {"properties": {"deleteOption": self._option()}}
            inner["publicIPAddress"] = {**link(address_path(name)), **options}
        if last := self._draw(("", "", "4", "5")):
            inner["privateIPAddress"] = f"10.7.0.{last}"
            inner["privateIPAllocationMethod"] = self._draw(("Static", "Dynamic"))
        body = {"location": "local", "properties": ip(**inner)}
        self._request("PUT", nic_path(self._name()), body)

    def put_others(self) -> None:
        """Create a disk, a public address or the network."""
        subnets = [{"name": "front", "properties": {"addressPrefix": "10.7.0.0/29"}}]
        path, properties = self._draw((
            (disk_path(self._name()), {"diskSizeGB": 4}),
            (address_path(self._name()), {}),
            (VNET, {"subnets": subnets}),
            (VNET, {"subnets": []}),
        ))  # fmt: skip
        self._request("PUT", path, {"location": "local", "properties": properties})

    def delete(self) -> None:
        """Delete one resource."""
        kind = self._draw((machine_path, disk_path, nic_path, address_path, lambda _: SUBNET))
        self._request("DELETE", kind(self._name()))

    def wait(self) -> None:
        """Let deletions end, or restart the service in the middle of them."""
        seconds = self._draw((0, 60, 400))
        if seconds:
            self._arm.advance(seconds)
        else:
            self._arm.restart()

    def change_group(self) -> None:
        """Delete the group, or create it again."""
        if self._draw((False, True)):
            self._request("DELETE", "/resourceGroups/rg")
        else:
            self._request("PUT", "/resourceGroups/rg", {"location": "local"})


def listed(arm: ArmHarness, path: str) -> dict[str, Json]:
    """Return the documents of a listing, by their ids."""
    return {item["id"]: item for item in arm.get(path).json["value"]}


def assert_agree(arm: ArmHarness) -> None:
    """Compare each reference with the one in the other direction."""
    compute, network = "/providers/Microsoft.Compute", "/providers/Microsoft.Network"
    machines = listed(arm, f"{compute}/virtualMachines")
    interfaces = listed(arm, f"{network}/networkInterfaces")
    used: dict[str, str] = {}
    attached: dict[str, str] = {}
    for id_, machine in machines.items():
        properties = machine["properties"]
        for entry in properties["networkProfile"]["networkInterfaces"]:
            used[entry["id"]] = id_
        storage = properties["storageProfile"]
        for entry in (storage["osDisk"], *storage["dataDisks"]):
            if "managedDisk" in entry:
                attached[entry["managedDisk"]["id"]] = id_
                assert entry["managedDisk"]["id"].endswith(f"/{entry['name']}")
    shown = {
        id_: nic["properties"]["virtualMachine"]["id"]
        for id_, nic in interfaces.items()
        if "virtualMachine" in nic["properties"]
    }
    assert shown == used
    disks = listed(arm, f"{compute}/disks")
    assert {
        id_: disk["managedBy"] for id_, disk in disks.items() if "managedBy" in disk
    } == attached
    for disk in disks.values():
        assert (disk["properties"]["diskState"] == "Unattached") == ("managedBy" not in disk)
    assert_addresses(arm, interfaces)


def assert_addresses(arm: ArmHarness, interfaces: dict[str, Json]) -> None:
    """Compare public addresses, subnets and reservations with the interfaces."""
    network = "/providers/Microsoft.Network"
    public: dict[str, str] = {}
    private: dict[str, str] = {}
    for interface in interfaces.values():
        for entry in interface["properties"]["ipConfigurations"]:
            inner = entry["properties"]
            assert private.setdefault(inner["privateIPAddress"], entry["id"]) == entry["id"]
            if "publicIPAddress" in inner:
                public[inner["publicIPAddress"]["id"]] = entry["id"]
    assert public == {
        id_: item["properties"]["ipConfiguration"]["id"]
        for id_, item in listed(arm, f"{network}/publicIPAddresses").items()
        if "ipConfiguration" in item["properties"]
    }
    assert set(private.values()) == {
        user["id"]
        for item in listed(arm, f"{network}/virtualNetworks").values()
        for subnet in item["properties"]["subnets"]
        for user in subnet["properties"].get("ipConfigurations", ())
    }
    rows = arm.run(all_entities(arm.store)).values()
    reserved = {
        row.name.rpartition("/")[2]: f"{SUBSCRIPTION}{nic_path(row.used_by.rpartition(':')[2])}"
        for row in rows
        if isinstance(row, Resource)
        and row.id.startswith(subnets.RESERVATION.lower())
        and row.used_by
    }
    assert reserved == {
        text: id_.removesuffix("/ipConfigurations/ip") for text, id_ in private.items()
    }


@pytest.mark.spec("C6")
@settings(suppress_health_check=list(HealthCheck), deadline=None)
@given(st.lists(st.binary(min_size=32, max_size=32), min_size=5, max_size=STEPS))
def test_references_agree(steps: list[bytes]) -> None:
    """Whatever is created, attached, detached and deleted, in whatever order."""
    with ArmHarness() as arm:
        arm.group()
        subnets = [{"name": "front", "properties": {"addressPrefix": "10.7.0.0/29"}}]
        arm.put(VNET, {"location": "local", "properties": {"subnets": subnets}})
        for name in _NAMES:
            arm.put(address_path(name), {"location": "local"})
            arm.put(disk_path(name), {"location": "local", "properties": {"diskSizeGB": 4}})
        for data in steps:
            Requests(arm, Choices(data).of).step()
            assert_agree(arm)
        arm.delete("/resourceGroups/rg")
        arm.advance(2_000)
        assert arm.get("/resourceGroups/rg").status == 404
        entities = arm.run(all_entities(arm.store))
        assert not [name for kind, name in entities if kind is Resource]
