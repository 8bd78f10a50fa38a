"""Managed disks: created, attached, detached and deleted with machines."""

import re
from typing import Any

import pytest

from tests.arm.bodies import (
    COMPUTE,
    DISK,
    NIC,
    PIP,
    VM,
    data_disk,
    delete,
    link,
    names,
    network,
    nic,
    put,
    refused,
    scale_set,
    storage,
    vm,
)
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C6")

DISKS = f"{COMPUTE}/disks"
OTHER = f"{COMPUTE}/virtualMachines/other"


def shown_disks(arm: ArmHarness, path: str = VM) -> list[dict[str, Any]]:
    """Return the entries of a machine's data disks."""
    disks: list[dict[str, Any]] = arm.get(path).json["properties"]["storageProfile"]["dataDisks"]
    return disks


def at(document: dict[str, Any]) -> str:
    """Return the path of the disk in an entry of a storage profile."""
    return str(document["managedDisk"]["id"]).removeprefix(SUBSCRIPTION)


def test_entries_without_a_name_a_sku_or_a_location(arm: ArmHarness) -> None:
    """Unmanaged disks, a disk whose sku has no name, and machines of a fleet file are accepted."""
    unmanaged = {"lun": 0, "createOption": "Empty", "vhd": {"uri": "http://x/y"}}
    put(arm, VM, **storage(unmanaged))
    put(arm, VM, **storage(unmanaged, data_disk(1, name="new")))
    assert [entry.get("name") for entry in shown_disks(arm)] == [None, "new"]
    body = {"location": "local", "sku": {"tier": "x"}, "properties": {"diskSizeGB": 1}}
    assert arm.put(DISK, body).status == 200
    entry = {"lun": 0, "createOption": "Attach", "managedDisk": link(DISK)}
    put(arm, OTHER, **storage(entry))
    assert shown_disks(arm, OTHER)[0]["managedDisk"]["storageAccountType"] == "Premium_LRS"
    arm.create_fleet()
    machine = "/resourceGroups/fairwarning/providers/Microsoft.Compute/virtualMachines/db_0"
    change = {"storageProfile": {"dataDisks": [data_disk(0)]}}
    assert arm.patch(machine, {"properties": change}).status == 200
    assert arm.get(at(shown_disks(arm, machine)[0])).json["location"] == "local"


def test_a_machine_has_a_system_disk(arm: ArmHarness) -> None:
    """It is a resource that shows its machine, and has what its image and its machine say."""
    entry = vm(arm)["properties"]["storageProfile"]["osDisk"]
    assert re.fullmatch("vm_OsDisk_1_[0-9a-f]{32}", entry["name"])
    assert entry["managedDisk"] == {"storageAccountType": "Premium_LRS", **link(at(entry))}
    assert (entry["osType"], entry["caching"]) == ("Linux", "ReadWrite")
    assert (entry["deleteOption"], entry["diskSizeGB"]) == ("Detach", 30)
    disk = arm.get(at(entry)).json
    assert (disk["name"], disk["location"]) == (entry["name"], "local")
    assert (disk["managedBy"], disk["sku"]["name"]) == (f"{SUBSCRIPTION}{VM}", "Premium_LRS")
    properties = disk["properties"]
    assert properties["creationData"]["createOption"] == "FromImage"
    assert properties["creationData"]["imageReference"]["publisher"] == "Canonical"
    assert (properties["osType"], properties["diskSizeGB"]) == ("Linux", 30)
    assert properties["diskSizeBytes"] == 30 * 2**30
    assert properties["timeCreated"] == "2026-01-09T12:00:00Z"
    assert properties["diskState"] == "Attached"
    assert names(arm, DISKS) == names(arm, "/providers/Microsoft.Compute/disks")


def test_a_disk_as_the_client_wants_it(arm: ArmHarness) -> None:
    """Name, size, kind and system are those of the request."""
    wanted = {
        "name": "sys",
        "diskSizeGB": "64",
        "createOption": "fromimage",
        "caching": "readonly",
        "managedDisk": {"storageAccountType": "StandardSSD_LRS"},
    }
    windows = {"storageProfile": {"osDisk": wanted}, "osProfile": {"windowsConfiguration": {}}}
    entry = put(arm, VM, **windows)["properties"]["storageProfile"]["osDisk"]
    assert (entry["name"], entry["diskSizeGB"], entry["osType"]) == ("sys", 64, "Windows")
    assert (entry["createOption"], entry["caching"]) == ("FromImage", "ReadOnly")
    disk = arm.get(f"{DISKS}/sys").json
    assert (disk["sku"]["name"], disk["sku"]["tier"]) == ("StandardSSD_LRS", "StandardSSD")
    assert disk["properties"]["diskSizeGB"] == 64


def test_writing_a_machine_again_changes_nothing(arm: ArmHarness) -> None:
    """Neither its own document nor a request without ids creates other disks."""
    vm(arm, **storage(data_disk(1, name="data"), data_disk(0)))
    before = arm.get(VM).json
    assert arm.put(VM, before).status == 200
    profile = before["properties"]["storageProfile"]
    for entry in (profile["osDisk"], *profile["dataDisks"]):
        del entry["managedDisk"]["id"]
    assert arm.put(VM, before).status == 200
    assert arm.patch(VM, {"tags": {"a": "b"}}).status == 200
    assert len(names(arm, DISKS)) == 3
    after = arm.get(VM).json["properties"]["storageProfile"]
    assert [entry["name"] for entry in after["dataDisks"]] == [
        entry["name"] for entry in profile["dataDisks"]
    ]
    arm.restart()
    assert arm.get(VM).json["properties"]["storageProfile"] == after


def test_an_empty_file_of_a_managed_disk(arm: ArmHarness) -> None:
    """Ansible sends one when it updates a machine; the disk stays managed."""
    vm(arm, **storage())
    before = arm.get(VM).json
    before["properties"]["storageProfile"]["osDisk"]["vhd"] = {}
    assert arm.put(VM, before).status == 200
    del before["properties"]["storageProfile"]["osDisk"]["vhd"]
    assert (
        arm.get(VM).json["properties"]["storageProfile"] == (before["properties"]["storageProfile"])
    )
    (name,) = names(arm, DISKS)
    assert arm.delete(f"{DISKS}/{name}").status == 409


def test_an_existing_name(arm: ArmHarness) -> None:
    """A disk with the name of a new one is not taken over."""
    put(arm, DISK, diskSizeGB=4)
    body = {"location": "local", "properties": storage(data_disk(0, name="DISK"))}
    response = arm.put(VM, body)
    assert refused(response) == (409, "ConflictingUserInput")
    assert arm.get(VM).status == 404
    assert names(arm, DISKS) == ["disk"]


def test_attach_and_detach(arm: ArmHarness) -> None:
    """A disk is attached and detached by updates of the machine, and shows it."""
    attach = {"lun": 3, "createOption": "attach", "managedDisk": link(DISK)}
    empty = put(arm, DISK, diskSizeGB=16)
    assert (empty["properties"]["diskState"], "managedBy" in empty) == ("Unattached", False)
    vm(arm)
    update = {"properties": {"storageProfile": {"dataDisks": [attach]}}}
    assert arm.patch(VM, update).status == 200
    (entry,) = shown_disks(arm)
    assert (entry["name"], entry["lun"], entry["diskSizeGB"]) == ("disk", 3, 16)
    disk = arm.get(DISK).json
    assert disk["managedBy"] == f"{SUBSCRIPTION}{VM}"
    assert disk["properties"]["diskState"] == "Attached"
    assert arm.put(DISK, disk).json["managedBy"] == f"{SUBSCRIPTION}{VM}"
    arm.post(f"{VM}/deallocate")
    arm.advance(60)
    assert arm.get(DISK).json["properties"]["diskState"] == "Reserved"
    detach = {"properties": {"storageProfile": {"dataDisks": [{**entry, "toBeDetached": True}]}}}
    assert arm.patch(VM, detach).status == 200
    assert shown_disks(arm) == []
    assert arm.get(DISK).json["properties"]["diskState"] == "Unattached"
    delete(arm, DISK)


def test_a_disk_of_another_machine(arm: ArmHarness) -> None:
    """It cannot be attached before its machine lets it go."""
    attach = {"lun": 0, "createOption": "Attach", "managedDisk": link(DISK)}
    put(arm, DISK, diskSizeGB=16)
    vm(arm, **storage(attach))
    vm(arm, OTHER)
    update = {"properties": {"storageProfile": {"dataDisks": [attach]}}}
    response = arm.patch(OTHER, update)
    assert refused(response) == (409, "ConflictingUserInput")
    assert f"{SUBSCRIPTION}{VM}" in response.json["error"]["message"]
    assert shown_disks(arm, OTHER) == []
    arm.patch(VM, {"properties": {"storageProfile": {"dataDisks": []}}})
    assert arm.patch(OTHER, update).status == 200


def test_sizes(arm: ArmHarness) -> None:
    """A machine's update does not resize a disk; the disk's own size counts."""
    vm(arm, **storage(data_disk(0, name="disk")))
    (entry,) = shown_disks(arm)
    resized = {"storageProfile": {"dataDisks": [{**entry, "diskSizeGB": 8}]}}
    assert refused(arm.patch(VM, {"properties": resized})) == (409, "ResizeDiskError")
    assert arm.patch(DISK, {"properties": {"diskSizeGB": 9}}).status == 200
    assert arm.patch(VM, {"tags": {"a": "b"}}).status == 200
    assert shown_disks(arm)[0]["diskSizeGB"] == 9


@pytest.mark.parametrize(
    "data",
    [
        [{"createOption": "Empty", "diskSizeGB": 4}],
        [data_disk(64)],
        [data_disk(-1)],
        [data_disk(0), data_disk(0)],
        [data_disk(0, name="a"), data_disk(1, name="A")],
        [data_disk(0, diskSizeGB=0)],
        [data_disk(0, diskSizeGB="many")],
        [{"lun": 0, "createOption": "Empty"}],
        [{"lun": 0, "createOption": "Attach"}],
        [{"lun": 0, "createOption": "Steal", "diskSizeGB": 4}],
        [data_disk(0, deleteOption="Never")],
        [data_disk(0, name="a/b")],
        ["disk"],
    ],
)
def test_bad_data_disks(arm: ArmHarness, data: list[dict[str, Any]]) -> None:
    """They are refused with what is allowed, and nothing is created."""
    response = arm.put(VM, {"location": "local", "properties": storage(*data)})
    assert refused(response) == (400, "InvalidParameter")
    assert "microsoft.compute" not in response.json["error"]["message"]
    assert arm.get(VM).status == 404
    assert names(arm, DISKS) == []


def test_delete_options(arm: ArmHarness) -> None:
    """Disks, interfaces and addresses go with their machine if it says so, and stay otherwise."""
    network(arm)
    put(arm, PIP)
    nic(arm, publicIPAddress={**link(PIP), "properties": {"deleteOption": "Delete"}})
    other = NIC.replace("/nic", "/other")
    nic(arm, other)
    profile = storage(data_disk(0, name="goes", deleteOption="Delete"), data_disk(1, name="x"))
    profile["storageProfile"]["osDisk"] = {"name": "sys", "deleteOption": "Delete"}
    entries = [{**link(NIC), "properties": {"deleteOption": "Delete"}}, link(other)]
    vm(arm, networkProfile={"networkInterfaces": entries}, **profile)
    delete(arm, VM)
    assert names(arm, DISKS) == ["x"]
    assert arm.get(f"{DISKS}/x").json["properties"]["diskState"] == "Unattached"
    assert [arm.get(path).status for path in (NIC, PIP, other)] == [404, 404, 200]


def test_a_delete_option_can_change(arm: ArmHarness) -> None:
    """The one that the machine has when it is deleted counts."""
    vm(arm, **storage(data_disk(0, name="disk")))
    for option in ("Delete", "Detach"):
        entry = {**shown_disks(arm)[0], "deleteOption": option}
        arm.patch(VM, {"properties": {"storageProfile": {"dataDisks": [entry]}}})
    system = {"osDisk": {"deleteOption": "Delete"}}
    assert arm.patch(VM, {"properties": {"storageProfile": system}}).status == 200
    delete(arm, VM)
    assert names(arm, DISKS) == ["disk"]
    delete(arm, DISK)


def test_a_machine_is_replaced_after_its_deletion(arm: ArmHarness) -> None:
    """Its disk stays and can be attached to the next one as its system disk."""
    system = {"osDisk": {"name": "sys"}}
    put(arm, VM, storageProfile=system)
    delete(arm, VM)
    body = {"location": "local", "properties": {"storageProfile": system}}
    assert refused(arm.put(VM, body)) == (409, "ConflictingUserInput")
    old = {"createOption": "Attach", "osType": "Linux", "managedDisk": link(f"{DISKS}/sys")}
    entry = put(arm, VM, storageProfile={"osDisk": old})["properties"]["storageProfile"]
    assert entry["osDisk"]["name"] == "sys"
    renamed = {"osDisk": {"name": "other"}}
    response = arm.patch(VM, {"properties": {"storageProfile": renamed}})
    assert refused(response) == (409, "PropertyChangeNotAllowed")


@pytest.mark.parametrize("mode", ["Uniform", "Flexible"])
def test_instances_show_their_disks(arm: ArmHarness, mode: str) -> None:
    """The ids are computed: these disks are no resources."""
    kind = {"osDisk": {"managedDisk": {"storageAccountType": "Standard_LRS"}}}
    web = scale_set(arm, capacity=2, model={"storageProfile": kind}, orchestrationMode=mode)
    listed = arm.get(f"{web}/virtualMachines").json["value"]
    disks = [item["properties"]["storageProfile"]["osDisk"] for item in listed]
    assert len({disk["managedDisk"]["id"] for disk in disks}) == 2
    for disk in disks:
        assert at(disk) == f"{DISKS}/{disk['name']}"
        assert disk["managedDisk"]["storageAccountType"] == "Standard_LRS"
    assert names(arm, DISKS) == []
    if mode == "Flexible":
        machine = arm.get(f"{COMPUTE}/virtualMachines/web_0").json["properties"]
        assert at(machine["storageProfile"]["osDisk"]) == at(disks[0])
