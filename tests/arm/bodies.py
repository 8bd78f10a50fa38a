"""Machines, sets and what they use, for tests of the control plane, with paths and scopes."""

from typing import Any

from fairwarning.service.tokens import Principal, Role
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness
from tests.fixtures.http import Response

Json = dict[str, Any]

COMPUTE = "/resourceGroups/rg/providers/Microsoft.Compute"
VM = f"{COMPUTE}/virtualMachines/vm"
WEB = f"{COMPUTE}/virtualMachineScaleSets/web"
AV = f"{COMPUTE}/availabilitySets/av"
NETWORK = "/resourceGroups/rg/providers/Microsoft.Network"
VNET = f"{NETWORK}/virtualNetworks/net"
SUBNET = f"{VNET}/subnets/front"
NSG = f"{NETWORK}/networkSecurityGroups/nsg"
NIC = f"{NETWORK}/networkInterfaces/nic"
PIP = f"{NETWORK}/publicIPAddresses/pip"
LB = f"{NETWORK}/loadBalancers/lb"
DISK = f"{COMPUTE}/disks/disk"
IMAGE = {"publisher": "Canonical", "offer": "ubuntu", "sku": "server", "version": "latest"}
# The scopes that their machines poll.
VM_SCOPE, WEB_SCOPE, AV_SCOPE = "rg:vm", "rg:web/0", "as:rg:av"
ANN = Principal(name="ann", role=Role.TENANT, group="rg")


def notice(duration: str = "PT5M") -> Json:
    """Return a profile with notice of deletes."""
    settings = {"enable": True, "notBeforeTimeout": duration}
    return {"scheduledEventsProfile": {"terminateNotificationProfile": settings}}


def policy(*, reboot: bool = False, redeploy: bool = False) -> Json:
    """Return a policy with automatic approvals of user-initiated events."""
    return {
        "scheduledEventsPolicy": {
            "userInitiatedReboot": {"automaticallyApprove": reboot},
            "userInitiatedRedeploy": {"automaticallyApprove": redeploy},
        }
    }


def created(response: Response) -> Json:
    """Return the document of a created resource. (For availability sets, Azure returns 200.)"""
    assert response.status in {200, 201}, response.body
    document: Json = response.json
    return document


def machine(arm: ArmHarness, path: str = VM, **properties: object) -> str:
    """Create a machine and its group, and return the machine's path."""
    arm.group(path.split("/")[2])
    created(arm.put(path, {"location": "local", "properties": properties}))
    return path


def scale_set(
    arm: ArmHarness,
    path: str = WEB,
    capacity: int = 3,
    model: Json | None = None,
    **properties: object,
) -> str:
    """Create a scale set and its group, and return the set's path."""
    arm.group(path.split("/")[2])
    body = {
        "location": "local",
        "sku": {"name": "Standard_B1s", "capacity": capacity},
        "properties": {"virtualMachineProfile": model or {}, **properties},
    }
    created(arm.put(path, body))
    return path


def names(arm: ArmHarness, path: str) -> list[str]:
    """Return the names in a listing."""
    return [item["name"] for item in arm.get(path).json["value"]]


def visible_events(arm: ArmHarness, scope: str) -> list[tuple[str, str, list[str]]]:
    """Return type, status and resources of the events that the machines of a scope see."""
    return [
        (event["EventType"], event["EventStatus"], event["Resources"])
        for event in arm.poll(scope)["Events"]
    ]


def actors(arm: ArmHarness, did: str) -> set[str]:
    """Return the actors of these facts in the journal."""
    return {entry.line.actor for entry in arm.journal() if entry.line.fact.type == did}


def refused(response: Response) -> tuple[int, str]:
    """Return the status and error code of a refused request."""
    assert response.status >= 400, response.body
    return response.status, response.error_code


# --- What machines use ----------------------------------------------------------------------------


def link(path: str) -> Json:
    """Return a reference to the resource at a path."""
    return {"id": f"{SUBSCRIPTION}{path}"}


def put(arm: ArmHarness, path: str, **properties: object) -> Json:
    """Write a resource, and return its document."""
    return created(arm.put(path, {"location": "local", "properties": properties}))


def network(arm: ArmHarness, prefix: str = "10.7.0.0/24", path: str = VNET) -> Json:
    """Create a group and a network with the subnet `front`."""
    arm.group()
    return put(arm, path, subnets=[{"name": "front", "properties": {"addressPrefix": prefix}}])


def ip(**inner: object) -> Json:
    """Return an interface's properties, or those of an interface in the model of a set."""
    return {"ipConfigurations": [{"name": "ip", "properties": inner}]}


def nic(arm: ArmHarness, path: str = NIC, **configuration: object) -> Json:
    """Create an interface in the subnet."""
    return put(arm, path, **ip(**{"subnet": link(SUBNET), **configuration}))


def vm(arm: ArmHarness, path: str = VM, *nics: str, **properties: object) -> Json:
    """Create a machine with interfaces and a disk from an image."""
    entries = [link(nic) for nic in nics]
    profile = {"imageReference": IMAGE, "osDisk": {"createOption": "FromImage"}}
    body = {
        "storageProfile": profile,
        "networkProfile": {"networkInterfaces": entries},
        **properties,
    }
    return put(arm, path, **body)


def address(interface: Json) -> str:
    """Return the private address of an interface's first configuration."""
    text: str = interface["properties"]["ipConfigurations"][0]["properties"]["privateIPAddress"]
    return text


def delete(arm: ArmHarness, path: str) -> None:
    """Delete a resource, without notice, and wait until it is gone."""
    assert arm.delete(path).status in {200, 202}
    arm.advance(120)
    assert arm.get(path).status == 404


def data_disk(lun: int, **more: object) -> Json:
    """Return the entry of an empty data disk."""
    return {"lun": lun, "createOption": "Empty", "diskSizeGB": 4, **more}


def storage(*data: Json) -> Json:
    """Return the properties of a machine with these data disks."""
    return {"storageProfile": {"imageReference": IMAGE, "osDisk": {}, "dataDisks": list(data)}}
