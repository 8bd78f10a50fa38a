"""Network interfaces and public addresses of instances, as the set's network profile has them."""

import re
from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from fairwarning.service.config.settings import ArmSettings
from tests.arm.bodies import WEB, WEB_SCOPE, created, refused, scale_set
from tests.fixtures.arm import SUBSCRIPTION, ArmHarness

pytestmark = pytest.mark.spec("C6")

NETWORK = "/resourceGroups/rg/providers/Microsoft.Network"
VNET = f"{NETWORK}/virtualNetworks/net"
SUBNET = f"{SUBSCRIPTION}{VNET}/subnets/front"
POOL = f"{SUBSCRIPTION}{NETWORK}/loadBalancers/lb/backendAddressPools/pool"
INSTANCE = f"{WEB}/virtualMachines/1"
NIC = f"{INSTANCE}/networkInterfaces/nic"


def network_profile(**ip: object) -> dict[str, Any]:
    """Return the model of a set with two interfaces; `ip` goes into the first configuration."""
    first = {"name": "ip", "properties": {"subnet": {"id": SUBNET}, **ip}}
    second = {"name": "other", "properties": {"subnet": {"id": SUBNET}}}
    configurations = [
        {"name": "second", "properties": {"primary": False, "ipConfigurations": [second]}},
        {
            "name": "nic",
            "properties": {
                "primary": True,
                "enableAcceleratedNetworking": True,
                "networkSecurityGroup": {"id": f"{SUBSCRIPTION}{NETWORK}/nsg"},
                "dnsSettings": {"dnsServers": ["10.7.8.9"]},
                "ipConfigurations": [first],
            },
        },
    ]
    return {"networkProfile": {"networkInterfaceConfigurations": configurations}}


def web(arm: ArmHarness, capacity: int = 3, **ip: object) -> None:
    """Create a set with a network."""
    arm.group()
    subnets = [{"name": "front", "properties": {"addressPrefix": "10.7.8.0/26"}}]
    created(arm.put(VNET, {"location": "local", "properties": {"subnets": subnets}}))
    scale_set(arm, capacity=capacity, model=network_profile(**ip))


def values(arm: ArmHarness, path: str) -> list[dict[str, Any]]:
    """Return a listing."""
    listed: list[dict[str, Any]] = arm.get(path).json["value"]
    return listed


def test_an_interface_of_an_instance() -> None:
    """It has the members of the model, its instance, a MAC address and an address of the subnet."""
    with ArmHarness() as arm:
        web(arm, loadBalancerBackendAddressPools=[{"id": POOL}])
        document = arm.get(NIC).json
        assert document["id"] == f"{SUBSCRIPTION}{NIC}"
        properties = document["properties"]
        assert properties["virtualMachine"] == {"id": f"{SUBSCRIPTION}{INSTANCE}"}
        assert properties["primary"] is True
        assert properties["enableAcceleratedNetworking"] is True
        assert properties["dnsSettings"]["dnsServers"] == ["10.7.8.9"]
        assert properties["networkSecurityGroup"]["id"].endswith("/nsg")
        assert re.fullmatch("00-0D-3A(-[0-9A-F]{2}){3}", properties["macAddress"])
        (configuration,) = properties["ipConfigurations"]
        assert configuration["id"] == f"{SUBSCRIPTION}{NIC}/ipConfigurations/ip"
        inner = configuration["properties"]
        assert inner["subnet"] == {"id": SUBNET}
        assert inner["loadBalancerBackendAddressPools"] == [{"id": POOL}]
        assert ip_address(inner["privateIPAddress"]) in ip_network("10.7.8.0/26")
        assert "publicIPAddress" not in inner


def test_the_listings_agree() -> None:
    """The set, the instance and each level below show the same interfaces."""
    with ArmHarness() as arm:
        web(arm)
        listed = values(arm, f"{WEB}/networkInterfaces")
        assert len(listed) == 6
        of_instance = values(arm, f"{INSTANCE}/networkInterfaces")
        assert of_instance == listed[2:4]
        assert [entry["name"] for entry in of_instance] == ["second", "nic"]
        assert arm.get(NIC.upper().replace("/RESOURCEGROUPS/RG", "/resourceGroups/rg")).json[
            "name"
        ] == ("nic")
        assert arm.get(NIC).json == of_instance[1]
        configurations = values(arm, f"{NIC}/ipConfigurations")
        assert configurations == of_instance[1]["properties"]["ipConfigurations"]
        assert arm.get(f"{NIC}/ipConfigurations/ip").json == configurations[0]


def test_addresses_are_different() -> None:
    """Each instance has its own MAC address and private address, which stay."""
    with ArmHarness() as arm:
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
        configuration = arm.get(f"{NIC}/ipConfigurations/ip").json
        assert configuration["properties"]["privateIPAddress"] == own
        other = values(arm, f"{INSTANCE}/networkInterfaces/second/ipConfigurations")
        assert other[0]["properties"]["privateIPAddress"] != own


def test_public_addresses() -> None:
    """They are listed for the set and below each IP configuration that has one."""
    with ArmHarness() as arm:
        web(arm, publicIPAddressConfiguration={"name": "public", "properties": {}})
        listed = values(arm, f"{WEB}/publicipaddresses")
        assert len({entry["properties"]["ipAddress"] for entry in listed}) == 3
        path = f"{NIC}/ipConfigurations/ip/publicIPAddresses"
        assert listed[1]["id"] == f"{SUBSCRIPTION}{path}/public"
        owner = listed[1]["properties"]["ipConfiguration"]
        assert owner == {"id": f"{SUBSCRIPTION}{NIC}/ipConfigurations/ip"}
        assert values(arm, path.lower().replace("/resourcegroups", "/resourceGroups")) == [
            listed[1]
        ]
        assert arm.get(f"{path}/public").json == listed[1]
        inner = arm.get(f"{NIC}/ipConfigurations/ip").json["properties"]
        assert inner["publicIPAddress"] == {"id": listed[1]["id"]}
        other = f"{INSTANCE}/networkInterfaces/second/ipConfigurations/other/publicIPAddresses"
        assert values(arm, other) == []


def test_an_instance_has_its_interfaces() -> None:
    """The instance refers to them, and shows what it has from the set's model."""
    with ArmHarness() as arm:
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


def test_pages() -> None:
    """A large set is listed by pages of instances."""
    with ArmHarness() as arm:
        web(arm, capacity=201)
        first = arm.get(f"{WEB}/networkInterfaces").json
        rest = arm.follow(first["nextLink"]).json
        owners = [
            entry["properties"]["virtualMachine"]["id"].rpartition("/")[2]
            for entry in (*first["value"], *rest["value"])
        ]
        assert owners == [str(number) for number in range(201) for _ in range(2)]


def test_a_set_without_a_network() -> None:
    """Its listings are empty."""
    with ArmHarness() as arm:
        scale_set(arm)
        for path in (f"{WEB}/networkInterfaces", f"{WEB}/publicipaddresses"):
            assert values(arm, path) == []


@pytest.mark.parametrize(
    "path",
    [
        f"{WEB}x/networkInterfaces",
        f"{WEB}/virtualMachines/9/networkInterfaces",
        f"{INSTANCE}/networkInterfaces/none",
        f"{NIC}/ipConfigurations/none",
        f"{NIC}/ipConfigurations/none/publicIPAddresses",
        f"{NIC}/ipConfigurations/ip/publicIPAddresses/none",
    ],
)
def test_what_does_not_exist(path: str) -> None:
    """The set, the instance, the interface, the configuration or the address is not found."""
    with ArmHarness() as arm:
        web(arm)
        assert refused(arm.get(path)) == (404, "ResourceNotFound")


@pytest.mark.parametrize(
    "profile",
    [
        [],
        {"networkInterfaceConfigurations": {}},
        {"networkInterfaceConfigurations": [{}]},
        {"networkInterfaceConfigurations": ["nic"]},
        {"networkInterfaceConfigurations": [{"name": "a"}, {"name": "A"}]},
        {
            "networkInterfaceConfigurations": [
                {"name": "a", "properties": {"ipConfigurations": [1]}}
            ]
        },
        {
            "networkInterfaceConfigurations": [
                {
                    "name": "a",
                    "properties": {
                        "ipConfigurations": [
                            {"name": "b", "properties": {"publicIPAddressConfiguration": {}}}
                        ]
                    },
                }
            ]
        },
    ],
)
def test_invalid_profiles(profile: object) -> None:
    """The error names the member, and no set is created."""
    with ArmHarness() as arm:
        arm.group()
        model = {"virtualMachineProfile": {"networkProfile": profile}}
        response = arm.put(WEB, {"location": "local", "properties": model})
        assert refused(response) == (400, "InvalidParameter")
        assert "etwork" in response.error_message
        assert arm.get(WEB).status == 404
