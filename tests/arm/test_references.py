"""Resources that refer to others, which show their users and are kept while they are in use."""

import json
from typing import Any

import pytest

from fairwarning.service.tokens import Principal, Role
from tests.arm.bodies import (
    ANN,
    AV,
    COMPUTE,
    DISK,
    LB,
    NETWORK,
    NIC,
    NSG,
    PIP,
    SUBNET,
    VM,
    VNET,
    WEB,
    Json,
    address,
    delete,
    ip,
    link,
    network,
    nic,
    put,
    refused,
    scale_set,
    vm,
)
from tests.arm.everything import state
from tests.fixtures.arm import OPERATOR, SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C6")

CONFIGURATION = f"{NIC}/ipConfigurations/ip"


def test_a_public_address_shows_its_configuration(arm: ArmHarness) -> None:
    """That of an interface or of a load balancer; ids are shown in their usual case."""
    network(arm)
    put(arm, PIP)
    document = nic(arm, publicIPAddress={"id": f"{SUBSCRIPTION}{PIP.replace('IPA', 'IpA')}"})
    (shown,) = document["properties"]["ipConfigurations"]
    assert shown["properties"]["publicIPAddress"] == link(PIP)
    assert arm.get(PIP).json["properties"]["ipConfiguration"] == link(CONFIGURATION)
    again = arm.get(PIP).json
    assert arm.put(PIP, again).json["properties"]["ipConfiguration"] == link(CONFIGURATION)
    nic(arm)
    assert "ipConfiguration" not in arm.get(PIP).json["properties"]
    front = {"name": "front", "properties": {"publicIPAddress": link(PIP)}}
    put(arm, LB, frontendIPConfigurations=[front])
    place = link(f"{LB}/frontendIPConfigurations/front")
    assert arm.get(PIP).json["properties"]["ipConfiguration"] == place
    rule = f"{LB}/inboundNatRules/ssh"
    assert arm.put(rule, {"properties": {}}).status == 201
    assert arm.delete(rule).status == 200
    assert arm.get(PIP).json["properties"]["ipConfiguration"] == place
    delete(arm, LB)
    assert "ipConfiguration" not in arm.get(PIP).json["properties"]


def test_subnets_show_their_users(arm: ArmHarness) -> None:
    """Configurations of interfaces and of instances."""
    put(arm, NSG)
    secured = {"addressPrefix": "10.7.0.0/24", "networkSecurityGroup": link(NSG)}
    document = put(arm, VNET, subnets=[{"name": "front", "properties": secured}])
    assert "ipConfigurations" not in document["properties"]["subnets"][0]["properties"]
    properties = ip(subnet=link(SUBNET))
    put(arm, NIC, **properties, networkSecurityGroup=link(NSG))
    web = scale_set(arm, capacity=1, **model(properties))
    instance = f"{web}/virtualMachines/0/networkInterfaces/n/ipConfigurations/ip"
    users = [link(CONFIGURATION), link(instance)]
    assert arm.get(SUBNET).json["properties"]["ipConfigurations"] == users
    (listed,) = arm.get("/providers/Microsoft.Network/virtualNetworks").json["value"]
    assert listed["properties"]["subnets"][0]["properties"]["ipConfigurations"] == users


def test_a_load_balancer_shows_its_users(arm: ArmHarness) -> None:
    """The configurations in a pool and behind a rule."""
    network(arm)
    put(
        arm,
        LB,
        backendAddressPools=[{"name": "pool"}],
        inboundNatRules=[{"name": "ssh"}],
    )
    nic(
        arm,
        loadBalancerBackendAddressPools=[link(f"{LB}/backendAddressPools/pool")],
        loadBalancerInboundNatRules=[link(f"{LB}/inboundNatRules/ssh")],
    )
    shown = arm.get(LB).json["properties"]
    (pool,) = shown["backendAddressPools"]
    assert pool["properties"]["backendIPConfigurations"] == [link(CONFIGURATION)]
    (rule,) = shown["inboundNatRules"]
    assert rule["properties"]["backendIPConfiguration"] == link(CONFIGURATION)
    arm.put(LB, arm.get(LB).json)
    delete(arm, NIC)
    after = arm.get(LB).json["properties"]
    assert "backendIPConfigurations" not in after["backendAddressPools"][0]["properties"]
    assert "backendIPConfiguration" not in after["inboundNatRules"][0]["properties"]


def test_what_is_in_use_is_not_deleted(arm: ArmHarness) -> None:
    """The codes and texts are Azure's, with Azure's ids."""
    network(arm)
    put(arm, PIP)
    nic(arm, publicIPAddress=link(PIP))
    put(arm, DISK, diskSizeGB=4)
    entry = {"lun": 0, "createOption": "Attach", "managedDisk": link(DISK)}
    vm(arm, VM, NIC, storageProfile={"dataDisks": [entry]})
    before = [arm.get(path).body for path in (NIC, PIP, VNET, DISK)]
    for path, code, user in (
        (NIC, (400, "NicInUse"), VM),
        (PIP, (400, "PublicIPAddressCannotBeDeleted"), CONFIGURATION),
        (SUBNET, (400, "InUseSubnetCannotBeDeleted"), CONFIGURATION),
        (VNET, (400, "InUseSubnetCannotBeDeleted"), CONFIGURATION),
        (DISK, (409, "OperationNotAllowed"), VM),
    ):
        response = arm.delete(path)
        assert refused(response) == code
        assert f"{SUBSCRIPTION}{user}" in response.json["error"]["message"]
        assert "microsoft.network" not in response.json["error"]["message"]
    replaced = arm.put(VNET, {"location": "local", "properties": {"subnets": []}})
    assert refused(replaced) == (400, "InUseSubnetCannotBeDeleted")
    assert [arm.get(path).body for path in (NIC, PIP, VNET, DISK)] == before
    for path in (VM, NIC, PIP, SUBNET, VNET, DISK):
        assert arm.delete(path).status in {200, 202}
        arm.advance(120)


def test_an_interface_of_another_machine(arm: ArmHarness) -> None:
    """It is refused, and nothing is created."""
    network(arm)
    nic(arm)
    vm(arm, VM, NIC)
    other = f"{COMPUTE}/virtualMachines/other"
    body = {"networkProfile": {"networkInterfaces": [link(NIC)]}, "storageProfile": {}}
    response = arm.put(other, {"location": "local", "properties": body})
    assert refused(response) == (400, "NicInUse")
    assert f"{SUBSCRIPTION}{VM}" in response.json["error"]["message"]
    assert arm.get(other).status == 404
    assert len(arm.get(f"{COMPUTE}/disks").json["value"]) == 1
    twice = {"networkProfile": {"networkInterfaces": [link(NIC), link(NIC)]}}
    assert refused(arm.patch(VM, {"properties": twice})) == (400, "NicInUse")


def test_a_public_address_has_one_user(arm: ArmHarness) -> None:
    """A second interface or frontend is refused, also within one resource."""
    network(arm)
    put(arm, PIP)
    nic(arm, publicIPAddress=link(PIP))
    inner = {"publicIPAddress": link(PIP)}
    front = {"frontendIPConfigurations": [{"name": "a", "properties": inner}]}
    other = {"ipConfigurations": [{"name": "a", "properties": inner}]}
    for path, properties in ((LB, front), (f"{NETWORK}/networkInterfaces/b", other)):
        response = arm.put(path, {"location": "local", "properties": properties})
        assert refused(response) == (400, "PublicIPAddressInUse")
        assert arm.get(path).status == 404
    first = {"name": "ip", "properties": inner}
    twice = {"ipConfigurations": [first, {**first, "name": "second"}]}
    response = arm.put(NIC, {"location": "local", "properties": twice})
    assert refused(response) == (400, "PublicIPAddressInUse")


@pytest.mark.parametrize(
    "properties",
    [
        {"networkProfile": {"networkInterfaces": [{}]}},
        {"networkProfile": {"networkInterfaces": ["nic"]}},
        {"networkProfile": {"networkInterfaces": [{"id": f"{SUBSCRIPTION}{VNET}"}]}},
        {"availabilitySet": {"id": "av"}},
        {"storageProfile": {"osDisk": {"managedDisk": {"id": "disk"}}}},
    ],
)
def test_what_is_no_id(arm: ArmHarness, properties: dict[str, Any]) -> None:
    """A machine that refers to nothing is not created."""
    response = arm.put(VM, {"location": "local", "properties": properties})
    assert refused(response) in {
        (400, "LinkedInvalidPropertyId"),
        (400, "InvalidParameter"),  # not even an object
    }
    assert arm.get(VM).status == 404
    assert arm.get(f"{COMPUTE}/disks").json == {"value": []}


def test_a_network_of_another_group(arm: ArmHarness) -> None:
    """An operator may use it, as on Azure; a tenant of one group may not."""
    network(arm)
    arm.group("elsewhere")
    path = NIC.replace("/resourceGroups/rg/", "/resourceGroups/elsewhere/")
    body = {"location": "local", "properties": ip(subnet=link(SUBNET))}
    arm.principal = Principal(name="ann", role=Role.TENANT, group="elsewhere")
    assert refused(arm.put(path, body)) == (400, "InvalidResourceReference")
    arm.principal = OPERATOR
    assert address(nic(arm, path)) != address(nic(arm))  # of one subnet


NEW = {
    "machine": f"{COMPUTE}/virtualMachines/new",
    "set": f"{COMPUTE}/virtualMachineScaleSets/new",
    "interface": f"{NETWORK}/networkInterfaces/new",
    "network": f"{NETWORK}/virtualNetworks/new",
    "balancer": f"{NETWORK}/loadBalancers/new",
    "disk": f"{COMPUTE}/disks/new",
    "image": f"{COMPUTE}/images/new",
    "setting": "/resourceGroups/rg/providers/Microsoft.Insights/autoscaleSettings/new",
}
IMAGE = f"{COMPUTE}/images/image"
USER = "/resourceGroups/rg/providers/Microsoft.ManagedIdentity/userAssignedIdentities/user"
NEAR = f"{COMPUTE}/proximityPlacementGroups/near"
PARTS = {name: [{"name": "part"}] for name in
         ("backendAddressPools", "inboundNatRules", "inboundNatPools")}  # fmt: skip
TARGETS: tuple[tuple[str, Json], ...] = (
    (VNET, {"subnets": [{"name": "front", "properties": {"addressPrefix": "10.7.0.0/24"}}]}),
    (LB, PARTS),
    *((path, {}) for path in (NSG, PIP, NIC, AV, IMAGE, USER, NEAR)),
    (VM, {}),
    (WEB, {"orchestrationMode": "Flexible"}),
    (DISK, {"diskSizeGB": 4}),
)
"""The resources that are referred to, each with its properties."""


def model(properties: Json) -> Json:
    """Return a scale set's properties with a network interface in its model."""
    interfaces = [{"name": "n", "properties": properties}]
    profile = {"networkProfile": {"networkInterfaceConfigurations": interfaces}}
    return {"virtualMachineProfile": profile}


def whole(**properties: object) -> Json:
    """Return a body without its location."""
    return {"properties": properties}


REF = {"id": "{id}"}
POOL, RULE, POOL_OF_RULES = (f"{LB}/{name}/part" for name in PARTS)
SECURED = {"networkSecurityGroup": REF}
DATA_DISK = {"lun": 0, "createOption": "Attach", "managedDisk": REF}
COPY = {"createOption": "Copy", "sourceResourceId": "{id}"}
CASES: list[tuple[str, str, Json]] = [
    ("machine", NIC, whole(networkProfile={"networkInterfaces": [REF]})),
    ("machine", AV, whole(availabilitySet=REF)),
    ("machine", WEB, whole(virtualMachineScaleSet=REF)),
    ("machine", NEAR, whole(proximityPlacementGroup=REF)),
    ("machine", IMAGE, whole(storageProfile={"imageReference": REF})),
    ("machine", DISK, whole(storageProfile={"dataDisks": [DATA_DISK]})),
    ("machine", USER, {"identity": {"userAssignedIdentities": {"{id}": {}}}}),
    ("interface", SUBNET, whole(**ip(subnet=REF))),
    ("interface", NSG, whole(**ip(), **SECURED)),
    ("interface", PIP, whole(**ip(publicIPAddress=REF))),
    ("interface", POOL, whole(**ip(loadBalancerBackendAddressPools=[REF]))),
    ("interface", RULE, whole(**ip(loadBalancerInboundNatRules=[REF]))),
    ("set", SUBNET, whole(**model(ip(subnet=REF)))),
    ("set", NSG, whole(**model({**ip(), **SECURED}))),
    ("set", POOL, whole(**model(ip(loadBalancerBackendAddressPools=[REF])))),
    ("set", POOL_OF_RULES, whole(**model(ip(loadBalancerInboundNatPools=[REF])))),
    ("network", NSG, whole(subnets=[{"name": "s", "properties": SECURED}])),
    (
        "balancer",
        PIP,
        whole(frontendIPConfigurations=[{"name": "f", "properties": {"publicIPAddress": REF}}]),
    ),
    ("disk", DISK, whole(creationData=COPY)),
    ("image", VM, whole(sourceVirtualMachine=REF)),
    ("setting", WEB, whole(profiles=[{"rules": ["{id}"]}])),
    ("setting", SUBNET, whole(**{"{id}": [[{}]]})),
]
"""A new resource, what it refers to, and its body, in which `{id}` is the id of that."""


def with_id(body: Json, id_: str) -> Json:
    """Return a body that refers to the resource of this id."""
    text = json.dumps({"location": "local", **body}).replace("{id}", id_)
    filled: Json = json.loads(text)
    return filled


def create_targets(arm: ArmHarness, group: str) -> None:
    """Create all that is referred to."""
    for path, properties in TARGETS:
        put(arm, path.replace("/rg/", f"/{group}/"), **properties)


@pytest.mark.spec("C8")
@pytest.mark.parametrize(("kind", "target", "body"), CASES)
def test_a_reference(arm: ArmHarness, kind: str, target: str, body: Json) -> None:
    """What does not exist, or is in another group than the client's, cannot be referred to."""
    missing, path = (400, "InvalidResourceReference"), NEW[kind]
    ours = f"{SUBSCRIPTION}{target}"
    other = ours.replace("/rg/", "/other/")
    arm.group("other")
    before = state(arm)
    for id_ in (ours, f"/subscriptions/other{target}", other):
        response = arm.put(path, with_id(body, id_))
        assert refused(response) == missing
        assert id_ in response.error_message
    assert state(arm) == before
    create_targets(arm, "other")
    before = state(arm)
    assert refused(arm.put(path, with_id(body, other), principal=ANN)) == missing
    assert state(arm) == before
    create_targets(arm, "rg")
    response = arm.put(path, with_id(body, ours), principal=ANN)
    assert response.status in {200, 201}, response.body
    assert ours in arm.get(path).body.decode()
