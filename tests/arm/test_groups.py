"""Resource groups (C1). What their deletion does to each type is in `test_verbs.py`."""

import pytest

from fairwarning.core.model import Resource
from tests.arm.bodies import (
    AV,
    AV_SCOPE,
    COMPUTE,
    DISK,
    NIC,
    PIP,
    VM,
    VM_SCOPE,
    VNET,
    WEB,
    WEB_SCOPE,
    created,
    data_disk,
    link,
    machine,
    names,
    network,
    nic,
    notice,
    put,
    refused,
    scale_set,
    storage,
    visible_events,
    vm,
)
from tests.arm.templates import deployment
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness
from tests.fixtures.fleet import all_entities

RG = "/resourceGroups/rg"
LOCATION = {"location": "local"}
NET = f"{RG}/providers/Microsoft.Network/virtualNetworks/net"


@pytest.mark.parametrize("headers", [{"If-Match": '"77"'}, {"If-None-Match": "*"}])
def test_conditions(arm: ArmHarness, headers: dict[str, str]) -> None:
    """If-Match and If-None-Match prevent overwriting a group; a group has no ETag."""
    before = arm.get(RG).json
    for method in ("PUT", "PATCH"):
        response = arm.request(method, RG, {**LOCATION, "tags": {"a": "b"}}, headers=headers)
        assert refused(response) == (412, "PreconditionFailed")
    assert refused(arm.put(f"{RG}2", LOCATION, headers={"If-Match": "*"}))[0] == 412
    assert refused(arm.delete(RG, headers={"If-Match": '"77"'}))[0] == 412
    assert arm.get(RG).json == before
    assert arm.put(f"{RG}2", LOCATION, headers={"If-None-Match": "*"}).status == 201
    assert arm.put(RG, LOCATION, headers={"If-Match": "*"}).status == 200


def fill_group(arm: ArmHarness) -> None:
    """Create a group with machines, a set, a network and a deployment."""
    machine(arm, **notice())
    scale_set(arm, capacity=2, model=notice("PT10M"))
    created(arm.put(AV, LOCATION))
    machine(arm, f"{COMPUTE}/virtualMachines/in", availabilitySet={"id": f"{SUBSCRIPTION}{AV}"})
    created(arm.put(NET, LOCATION))
    created(arm.put(f"{RG}/providers/Microsoft.Resources/deployments/d", deployment()))


@pytest.mark.spec("C1")
def test_a_group_is_created_and_read() -> None:
    """GET, HEAD and the listing agree with the created group; the first case stays."""
    with ArmHarness() as arm:
        assert arm.request("HEAD", RG).status == 404
        document = created(arm.put("/resourcegroups/rg", {**LOCATION, "tags": {"a": "b"}}))
        assert document == {
            "id": f"{SUBSCRIPTION}{RG}",
            "name": "rg",
            "type": "Microsoft.Resources/resourceGroups",
            "location": "local",
            "tags": {"a": "b"},
            "properties": {"provisioningState": "Succeeded"},
        }
        assert arm.put("/resourceGroups/RG", LOCATION).json == document
        assert arm.get(RG).json == document
        head = arm.request("HEAD", RG)
        assert (head.status, head.body) == (204, b"")
        assert arm.get("/resourceGroups").json == {"value": [document]}


def test_invalid_groups() -> None:
    """A location, a valid name and string tags are required; PATCH creates no group."""
    with ArmHarness() as arm:
        assert refused(arm.put(RG, {})) == (400, "LocationRequired")
        assert refused(arm.put("/resourceGroups/a%20b", LOCATION)) == (400, "InvalidParameter")
        assert refused(arm.put(RG, {**LOCATION, "tags": {"a": 1}})) == (400, "InvalidParameter")
        assert refused(arm.patch(RG, LOCATION)) == (404, "ResourceGroupNotFound")
        arm.group()
        assert arm.patch(RG, {"tags": {"c": "d"}}).json["tags"] == {"c": "d"}
        assert arm.patch(RG, {"tags": {}}).json["tags"] == {}


@pytest.mark.spec("C1", "T4", "T5")
def test_a_group_is_deleted_with_its_resources(arm: ArmHarness) -> None:
    """Each machine gets its notice; the group exists until the last one is deleted."""
    fill_group(arm)
    for scope in (VM_SCOPE, WEB_SCOPE, AV_SCOPE):
        arm.poll(scope)
    accepted = arm.delete(RG)
    assert accepted.status == 202
    again = arm.delete(RG)  # which is the same operation
    assert again.headers["azure-asyncoperation"] == accepted.headers["azure-asyncoperation"]
    assert refused(arm.put(RG, LOCATION)) == (409, "ResourceGroupBeingDeleted")
    assert arm.get(RG).json["properties"]["provisioningState"] == "Deleting"
    assert visible_events(arm, VM_SCOPE) == [("Terminate", "Scheduled", ["vm"])]
    assert {kind for kind, _, _ in visible_events(arm, WEB_SCOPE)} == {"Terminate"}
    arm.advance(400)
    assert refused(arm.get(VM)) == (404, "ResourceNotFound")
    assert arm.get(WEB).status == arm.get(AV).status == arm.get(NET).status == 200
    assert arm.ended(accepted)["status"] == "InProgress"
    arm.advance(300)
    assert arm.ended(accepted)["status"] == "Succeeded"
    assert arm.request("HEAD", RG).status == 404
    arm.group()
    for path in (VM, WEB, AV, NET):
        assert refused(arm.get(path)) == (404, "ResourceNotFound")
    assert arm.get(f"{RG}/providers/Microsoft.Resources/deployments").json == {"value": []}


def test_other_groups_are_not_deleted(arm: ArmHarness) -> None:
    """Resources of other groups stay, also in a group with a similar name."""
    fill_group(arm)
    others = ["/resourceGroups/rg2", "/resourceGroups/r"]
    for other in others:
        machine(arm, VM.replace(RG, other), **notice())
        scale_set(arm, WEB.replace(RG, other), capacity=1)
    arm.delete(RG)
    arm.advance(1000)
    for other in others:
        assert arm.get(other).json["properties"]["provisioningState"] == "Succeeded"
        assert names(arm, f"{other}/providers/Microsoft.Compute/virtualMachines") == ["vm"]
        assert arm.get(WEB.replace(RG, other)).json["sku"]["capacity"] == 1


def test_a_group_of_several_pages(arm: ArmHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is deleted with all of them."""
    monkeypatch.setattr("fairwarning.arm.types.context.PAGE", 2)
    for number in range(3):
        created(arm.put(f"{NET}{number}", LOCATION))
    arm.delete(RG)
    assert names(arm, "/resourceGroups") == []
    arm.group()
    assert names(arm, NET.rpartition("/")[0]) == []


def rest(arm: ArmHarness) -> list[str]:
    """Return the ids of all resources in the store."""
    entities = arm.run(all_entities(arm.store))
    return [name for kind, name in entities if kind is Resource]


@pytest.mark.spec("C1", "C6")
def test_a_deletion_that_fails(arm: ArmHarness) -> None:
    """The machine and what it uses stay as they were; a second deletion removes all."""
    network(arm)
    nic(arm)
    put(arm, DISK, diskSizeGB=4)
    attach = {"lun": 1, "createOption": "Attach", "managedDisk": link(DISK)}
    profile = storage(data_disk(0, deleteOption="Delete"), attach)
    vm(arm, VM, NIC, **profile, **notice())
    vm(arm, f"{COMPUTE}/virtualMachines/other")
    arm.driver.failing["vm"] = "the host is gone"
    accepted = arm.delete(RG)
    arm.advance(120)
    ended = arm.ended(accepted)
    assert ended["status"] == "Failed"
    assert "the host is gone" in ended["error"]["message"]
    assert arm.get(RG).json["properties"]["provisioningState"] == "Succeeded"
    put(arm, PIP)
    assert arm.get(NIC).json["properties"]["virtualMachine"] == link(VM)
    assert arm.get(VM).status == arm.get(VNET).status == arm.get(DISK).status == 200
    arm.driver.failing.clear()
    accepted = arm.delete(RG)
    arm.advance(120)
    assert arm.ended(accepted)["status"] == "Succeeded"
    assert rest(arm) == []
