"""Networks, interfaces, addresses and disks for tests of the control plane."""

from tests.arm.bodies import COMPUTE, VM, Json, created
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

NETWORK = "/resourceGroups/rg/providers/Microsoft.Network"
VNET = f"{NETWORK}/virtualNetworks/net"
SUBNET = f"{VNET}/subnets/front"
NSG = f"{NETWORK}/networkSecurityGroups/nsg"
NIC = f"{NETWORK}/networkInterfaces/nic"
PIP = f"{NETWORK}/publicIPAddresses/pip"
LB = f"{NETWORK}/loadBalancers/lb"
DISK = f"{COMPUTE}/disks/disk"
IMAGE = {"publisher": "Canonical", "offer": "ubuntu", "sku": "server", "version": "latest"}


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
