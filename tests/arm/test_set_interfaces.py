"""Network interfaces and public addresses of instances, as the set's network profile has them."""

import re
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from fairwarning.service.config.settings import ArmSettings
from tests.arm.bodies import (
    COMPUTE,
    LB,
    NETWORK,
    NSG,
    SUBNET,
    VM,
    WEB,
    WEB_SCOPE,
    address,
    created,
    link,
    network,
    put,
    refused,
    scale_set,
)
from tests.arm.type_samples import without_etags
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C6")

RG = "/resourceGroups/rg"
POOL = f"{LB}/backendAddressPools/pool"
INSTANCE = f"{WEB}/virtualMachines/1"
MODES = ("Uniform", "Flexible")
PLACES = {
    "Uniform": (f"{INSTANCE}/networkInterfaces/nic", INSTANCE),
    "Flexible": (f"{NETWORK}/networkInterfaces/web_1-nic", f"{COMPUTE}/virtualMachines/web_1"),
}
"""The primary interface of an instance, and the instance, by orchestration mode."""


def network_profile(**ip: object) -> dict[str, Any]:
    """Return the model of a set with two interfaces; `ip` goes into the first configuration."""
    first = {"name": "ip", "properties": {"subnet": link(SUBNET), **ip}}
    second = {"name": "other", "properties": {"subnet": link(SUBNET)}}
    configurations = [
        {"name": "second", "properties": {"primary": False, "ipConfigurations": [second]}},
        {
            "name": "nic",
            "properties": {
                "primary": True,
                "enableAcceleratedNetworking": True,
                "networkSecurityGroup": link(NSG),
                "dnsSettings": {"dnsServers": ["10.7.8.9"]},
                "ipConfigurations": [first],
            },
        },
    ]
    return {"networkProfile": {"networkInterfaceConfigurations": configurations}}


def web(arm: ArmHarness, capacity: int = 3, mode: str = "Uniform", **ip: object) -> None:
    """Create a set with a network, and a load balancer with a pool."""
    network(arm, "10.7.8.0/26")
    put(arm, NSG)
    port = {"frontendPortRangeStart": 50_000, "backendPort": 22, "backendAddressPool": link(POOL)}
    rules = [{"name": "ssh", "properties": port}]
    put(arm, LB, backendAddressPools=[{"name": "pool"}], inboundNatRules=rules)
    scale_set(arm, capacity=capacity, model=network_profile(**ip), orchestrationMode=mode)


def values(arm: ArmHarness, path: str) -> list[dict[str, Any]]:
    """Return a listing."""
    listed: list[dict[str, Any]] = arm.get(path).json["value"]
    return listed


@pytest.mark.parametrize("mode", MODES)
def test_an_interface_of_an_instance(arm: ArmHarness, mode: str) -> None:
    """It has the members of the model, its instance, a MAC address and an address of the subnet."""
    path, owner = PLACES[mode]
    web(arm, mode=mode, loadBalancerBackendAddressPools=[link(POOL)])
    document = arm.get(path).json
    assert document["id"] == f"{SUBSCRIPTION}{path}"
    properties = document["properties"]
    assert properties["virtualMachine"] == link(owner)
    assert properties["primary"] is True
    assert properties["enableAcceleratedNetworking"] is True
    assert properties["dnsSettings"]["dnsServers"] == ["10.7.8.9"]
    assert properties["networkSecurityGroup"] == link(NSG)
    assert re.fullmatch("00-0D-3A(-[0-9A-F]{2}){3}", properties["macAddress"])
    (configuration,) = properties["ipConfigurations"]
    assert configuration["id"] == f"{SUBSCRIPTION}{path}/ipConfigurations/ip"
    inner = configuration["properties"]
    assert inner["subnet"] == link(SUBNET)
    assert inner["loadBalancerBackendAddressPools"] == [link(POOL)]
    assert ip_address(inner["privateIPAddress"]) in ip_network("10.7.8.0/26")
    assert "publicIPAddress" not in inner
    links = arm.get(owner).json["properties"]["networkProfile"]["networkInterfaces"]
    assert link(path) in links
    assert arm.get(path.upper().replace("/RESOURCEGROUPS/RG", RG)).json == document


@pytest.mark.parametrize("mode", MODES)
def test_the_listings_agree(arm: ArmHarness, mode: str) -> None:
    """The set and the instance show the same interfaces, and of a Flexible set also the group."""
    path, _ = PLACES[mode]
    web(arm, mode=mode)
    listed = values(arm, f"{WEB}/networkInterfaces")
    assert len(listed) == 6
    of_instance = values(arm, f"{INSTANCE}/networkInterfaces")
    assert of_instance == listed[2:4]
    assert arm.get(path).json == of_instance[1]
    expected = listed if mode == "Flexible" else []
    for everywhere in (NETWORK, "/providers/Microsoft.Network"):
        assert values(arm, f"{everywhere}/networkInterfaces") == expected


def test_interfaces_of_instances_are_among_others(arm: ArmHarness) -> None:
    """Those that clients wrote come first, and each is found by its name."""
    web(arm, capacity=1, mode="Flexible")
    put(arm, f"{NETWORK}/networkInterfaces/web_0-other")
    listed = values(arm, f"{NETWORK}/networkInterfaces")
    assert [entry["name"] for entry in listed] == ["web_0-other", "web_0-second", "web_0-nic"]
    for entry in listed:
        assert arm.get(f"{NETWORK}/networkInterfaces/{entry['name']}").json == entry
    assert arm.get(f"{NETWORK}/networkInterfaces/web_1-nic").status == 404
    assert arm.get(f"{NETWORK}/networkInterfaces/web_0-none").status == 404


@pytest.mark.parametrize("mode", MODES)
def test_a_pool_shows_its_instances(arm: ArmHarness, mode: str) -> None:
    """With a port of each, for `az vmss list-instance-connection-info`; a write-back is a no-op."""
    path, _ = PLACES[mode]
    web(arm, mode=mode, loadBalancerBackendAddressPools=[link(POOL)])
    document = arm.get(LB).json
    (pool,) = document["properties"]["backendAddressPools"]
    addresses = [e["properties"] for e in pool["properties"]["loadBalancerBackendAddresses"]]
    assert len(addresses) == 3
    assert addresses[1]["networkInterfaceIPConfiguration"] == link(f"{path}/ipConfigurations/ip")
    ports = [entry["inboundNatRulesPortMapping"] for entry in addresses]
    assert [port["frontendPort"] for (port,) in ports] == [50_000, 50_001, 50_002]
    assert arm.put(LB, document).status == 200
    assert without_etags(arm.get(LB).json) == without_etags(document)
    arm.delete(INSTANCE)
    arm.advance(60)
    (pool,) = arm.get(LB).json["properties"]["backendAddressPools"]
    assert len(pool["properties"]["loadBalancerBackendAddresses"]) == 2


def test_addresses_are_different(arm: ArmHarness) -> None:
    """Each instance has its own MAC address and private address, which stay."""
    web(arm, capacity=50)
    before = values(arm, f"{WEB}/networkInterfaces")
    nics = [entry["properties"] for entry in before if entry["name"] == "nic"]
    assert len({nic["macAddress"] for nic in nics}) == 50
    private = {nic["ipConfigurations"][0]["properties"]["privateIPAddress"] for nic in nics}
    assert len(private) == 50
    arm.restart()
    assert values(arm, f"{WEB}/networkInterfaces") == before


def test_the_address_of_the_machine() -> None:
    """Where addresses identify machines, the primary interface has the machine's own."""
    with ArmHarness(ArmSettings(by_address=True)) as arm:
        web(arm)
        own = arm.machines(WEB_SCOPE)["web_1"].address
        assert own
        second, primary = values(arm, f"{INSTANCE}/networkInterfaces")
        assert address(primary) == own != address(second)


@pytest.mark.parametrize("mode", MODES)
def test_public_addresses(arm: ArmHarness, mode: str) -> None:
    """They are listed for the set, and those of a Flexible set for the group, too."""
    path, _ = PLACES[mode]
    web(arm, mode=mode, publicIPAddressConfiguration={"name": "public", "properties": {}})
    listed = values(arm, f"{WEB}/publicipaddresses")
    assert len({entry["properties"]["ipAddress"] for entry in listed}) == 3
    assert listed[1]["properties"]["ipConfiguration"] == link(f"{path}/ipConfigurations/ip")
    (configuration,) = arm.get(path).json["properties"]["ipConfigurations"]
    assert configuration["properties"]["publicIPAddress"] == {"id": listed[1]["id"]}
    expected = listed if mode == "Flexible" else []
    assert values(arm, f"{NETWORK}/publicIPAddresses") == expected
    for entry in expected:
        assert arm.get(entry["id"].removeprefix(SUBSCRIPTION)).json == entry


def test_an_instance_has_its_interfaces(arm: ArmHarness) -> None:
    """The instance refers to them, and shows what it has from the set's model."""
    web(arm)
    image = {"imageReference": {"publisher": "Canonical", "version": "latest"}}
    user = {"computerNamePrefix": "web", "adminUsername": "ann"}
    model = {"virtualMachineProfile": {"storageProfile": image, "osProfile": user}}
    created(arm.patch(WEB, {"properties": model}))
    arm.post(f"{WEB}/manualupgrade", {"instanceIds": ["1"]})
    properties = arm.get(INSTANCE).json["properties"]
    ids = [link["id"] for link in properties["networkProfile"]["networkInterfaces"]]
    assert ids == [entry["id"] for entry in values(arm, f"{INSTANCE}/networkInterfaces")]
    assert properties["storageProfile"]["imageReference"] == image["imageReference"]
    assert properties["osProfile"] == {"computerName": "web000001", "adminUsername": "ann"}
    older = arm.get(f"{WEB}/virtualMachines/0").json["properties"]
    assert older["latestModelApplied"] is False
    assert "imageReference" not in older["storageProfile"]


def test_a_machine_that_joined_has_its_own_network(arm: ArmHarness) -> None:
    """It has no interfaces of the set's model, neither in lists nor in its documents."""
    web(arm, mode="Flexible")
    own = {"virtualMachineScaleSet": link(WEB)}
    assert arm.put(VM, {"location": "local", "properties": own}).status == 201
    for path in (f"{WEB}/networkInterfaces", f"{NETWORK}/networkInterfaces"):
        assert len(values(arm, path)) == 6  # two for each instance
    for path in (VM, f"{WEB}/virtualMachines/3"):
        profile = arm.get(path).json["properties"]["networkProfile"]
        assert profile["networkInterfaces"] == []


@pytest.mark.parametrize(
    "path",
    [
        f"{WEB}x/networkInterfaces",
        f"{WEB}/virtualMachines/9/networkInterfaces",
        f"{INSTANCE}/networkInterfaces/none",
    ],
)
def test_what_does_not_exist(arm: ArmHarness, path: str) -> None:
    """The set, the instance or the interface is not found."""
    web(arm)
    assert refused(arm.get(path)) == (404, "ResourceNotFound")
