"""Addresses of interfaces and machines, and public ones (C6, M22)."""

from ipaddress import ip_address, ip_network
from typing import Any

import pytest

from fairwarning.service.config.settings import ArmSettings
from tests.arm.bodies import (
    COMPUTE,
    NETWORK,
    NIC,
    PIP,
    SUBNET,
    VM,
    VM_SCOPE,
    VNET,
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
from tests.fixtures.arm import ArmHarness
from tests.fixtures.http import Response

pytestmark = pytest.mark.spec("C6")


def path_of(number: int) -> str:
    """Return the path of one of many interfaces."""
    return f"{NETWORK}/networkInterfaces/n{number}"


def static(arm: ArmHarness, wanted: object, path: str = NIC) -> Response:
    """Write an interface with a static address."""
    chosen = {"privateIPAllocationMethod": "Static", "privateIPAddress": wanted}
    properties = ip(subnet=link(SUBNET), **chosen)
    return arm.put(path, {"location": "local", "properties": properties})


def test_the_lowest_free_address(arm: ArmHarness) -> None:
    """The first interface has the first usable address; a free one is given again."""
    network(arm)
    assert [address(nic(arm, path_of(n))) for n in range(3)] == [
        "10.7.0.4",
        "10.7.0.5",
        "10.7.0.6",
    ]
    assert address(nic(arm, path_of(1))) == "10.7.0.5"
    delete(arm, path_of(1))
    assert address(nic(arm, path_of(3))) == "10.7.0.5"


def test_a_full_subnet(arm: ArmHarness) -> None:
    """Each address is given once, then no more."""
    network(arm, "10.7.0.0/25")
    usable = {str(host) for host in list(ip_network("10.7.0.0/25").hosts())[3:]}
    assert {address(nic(arm, path_of(n))) for n in range(len(usable))} == usable
    response = arm.put(NIC, {"location": "local", "properties": ip(subnet=link(SUBNET))})
    assert refused(response) == (400, "SubnetIsFull")
    assert arm.get(NIC).status == 404


def test_several_configurations_and_subnets(arm: ArmHarness) -> None:
    """Addresses are unique in each subnet; equal ones in different subnets do not matter."""
    network(arm)
    other = f"{NETWORK}/virtualNetworks/other"
    network(arm, path=other)
    subnets = (SUBNET, SUBNET, f"{other}/subnets/front")
    configurations = [
        {"name": f"ip{n}", "properties": {"subnet": link(path)}} for n, path in enumerate(subnets)
    ]
    shown = put(arm, NIC, ipConfigurations=configurations)["properties"]["ipConfigurations"]
    addresses = [entry["properties"]["privateIPAddress"] for entry in shown]
    assert addresses == ["10.7.0.4", "10.7.0.5", "10.7.0.4"]
    assert [entry["properties"]["primary"] for entry in shown] == [True, False, False]


def test_static_addresses(arm: ArmHarness) -> None:
    """They are usable addresses of the subnet that no other interface has."""
    network(arm)
    assert address(static(arm, "10.7.0.9").json) == "10.7.0.9"
    assert address(static(arm, "10.7.0.9").json) == "10.7.0.9"
    for wanted, code in (
        ("10.8.0.9", "PrivateIPAddressNotInSubnet"),
        ("10.7.0.3", "PrivateIPAddressNotInSubnet"),
        ("10.7.0.255", "PrivateIPAddressNotInSubnet"),
        ("10.7.0.9", "PrivateIPAddressIsAllocated"),
        ("10.7.0", "InvalidParameter"),
        ("", "InvalidParameter"),
        (None, "InvalidParameter"),
        (7, "InvalidParameter"),
    ):
        assert refused(static(arm, wanted, path_of(1))) == (400, code)
        assert arm.get(path_of(1)).status == 404
    assert static(arm, "10.7.0.10").status == 200
    assert address(static(arm, "10.7.0.9", path_of(1)).json) == "10.7.0.9"


def test_a_moved_interface(arm: ArmHarness) -> None:
    """It has an address of its new subnet, and the old one is free."""
    network(arm)
    back = {"properties": {"addressPrefix": "10.7.1.0/24"}}
    assert arm.put(f"{VNET}/subnets/back", back).status == 201
    nic(arm)
    assert address(nic(arm, subnet=link(f"{VNET}/subnets/back"))) == "10.7.1.4"
    assert address(nic(arm, path_of(1))) == "10.7.0.4"
    arm.restart()
    assert address(nic(arm, path_of(2))) == "10.7.0.5"


def test_requests_at_the_same_time(arm: ArmHarness) -> None:
    """They get different addresses."""
    network(arm)
    body = {"location": "local", "properties": ip(subnet=link(SUBNET))}
    responses = arm.put_at_once({path_of(number): body for number in range(40)})
    assert {response.status for response in responses} == {201}
    assert len({address(response.json) for response in responses}) == 40


@pytest.mark.parametrize("prefix", ["", "none", "fd00::/64", "10.9.0.0/31"])
def test_no_usable_subnet(arm: ArmHarness, prefix: str) -> None:
    """The interface gets an address of the default range."""
    network(arm, prefix or "10.7.0.0/24")
    inner = {"subnet": link(SUBNET)} if prefix else {}
    document = put(arm, NIC, **ip(**inner))
    assert ip_address(address(document)) in ip_network("10.0.0.0/16")


def test_an_address_stays(arm: ArmHarness) -> None:
    """Neither another PUT nor a restart changes the address or the MAC address."""
    network(arm)
    before = nic(arm)["properties"]
    assert len(before["macAddress"].split("-")) == 6
    subnet = {"id": link(SUBNET)["id"].upper()}
    assert nic(arm, subnet=subnet)["properties"]["macAddress"] == before["macAddress"]
    arm.restart()
    assert address(arm.get(NIC).json) == address({"properties": before})
    other = put(arm, path_of(1), **ip(privateIPAddress="10.1.2.3"))
    assert address(other) == "10.1.2.3"  # without a subnet it may be any


@pytest.mark.spec("M22")
@pytest.mark.parametrize("wanted", ["", "10.7.0.77"])
def test_in_a_host_run_an_interface_has_its_machine_s_address(wanted: str) -> None:
    """The address that identifies the machine, which may be another than before it was attached."""
    with ArmHarness(ArmSettings(by_address=True)) as arm:
        network(arm)
        for number in range(3):
            nic(arm, path_of(number))
        document = static(arm, wanted).json if wanted else nic(arm)
        vm(arm, f"{COMPUTE}/virtualMachines/other", path_of(2))
        vm(arm, VM, NIC)
        shown = address(arm.get(NIC).json)
        assert shown == arm.machines(VM_SCOPE)["vm"].address
        assert shown != address(arm.get(path_of(2)).json)
        assert ip_address(shown) in ip_network("10.7.0.0/24")
        assert not wanted or shown == wanted == address(document)
        (subnet,) = arm.get(VNET).json["properties"]["subnets"]
        assert len(subnet["properties"]["ipConfigurations"]) == 4


@pytest.mark.spec("M22")
def test_addresses_of_machines_and_instances() -> None:
    """In a host run static addresses are kept, others come from the subnet, and none is twice."""
    interface = {"name": "n", "properties": ip(subnet=link(SUBNET))}
    model = {"networkProfile": {"networkInterfaceConfigurations": [interface]}}
    with ArmHarness(ArmSettings(by_address=True)) as arm:
        network(arm)
        static(arm, "10.7.0.5")
        vm(arm, VM, NIC)
        nic(arm, path_of(1))
        vm(arm, f"{COMPUTE}/virtualMachines/any", path_of(1))
        scale_set(arm, capacity=2, model=model)
        assert arm.machines(VM_SCOPE)["vm"].address == "10.7.0.5"
        assert arm.machines("rg:any")["any"].address == "10.7.0.4"
        web = arm.machines("rg:web/0").values()
        assert [machine.address for machine in web] == ["10.7.0.6", "10.7.0.7"]


@pytest.mark.parametrize("by_address", [False, True])
def test_the_subnet_of_a_machine(*, by_address: bool) -> None:
    """In a host run the first /16 of a large subnet; else it has none, as on Azure."""
    with ArmHarness(ArmSettings(by_address=by_address)) as arm:
        network(arm, "10.0.0.0/8")
        nic(arm)
        vm(arm, VM, NIC)
        machine = arm.machines(VM_SCOPE)["vm"]
        assert machine.subnet == ("10.0.0.0/16" if by_address else "")
        assert bool(machine.address) is by_address


def test_texts_that_are_no_addresses(arm: ArmHarness) -> None:
    """They are refused, also where the service would choose an address."""
    network(arm)
    for inner in (
        {"privateIPAddress": "web"},
        {"privateIPAddress": "fd00::4"},
        {"privateIPAddress": "10.7.0.4/24", "subnet": link(SUBNET)},
        {"privateIPAddress": "web", "privateIPAddressVersion": "IPv6"},
    ):
        response = arm.put(NIC, {"location": "local", "properties": ip(**inner)})
        assert refused(response) == (400, "InvalidParameter"), inner
    response = arm.put(PIP, {"location": "local", "properties": {"ipAddress": "web"}})
    assert refused(response) == (400, "InvalidParameter")


def test_public_addresses(arm: ArmHarness) -> None:
    """In the documentation ranges, which are not routed; Ansible reads the SKU, also if unsent."""
    ranges = [ip_network(net) for net in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")]
    documents = [put(arm, f"{PIP}{number}")["properties"] for number in range(20)]
    addresses = {document["ipAddress"] for document in documents}
    assert all(any(ip_address(text) in net for net in ranges) for text in addresses)
    assert len(addresses) > 10
    assert {document["publicIPAllocationMethod"] for document in documents} == {"Dynamic"}
    for sku in ({}, {"name": "Standard"}):
        shown = arm.put(PIP, {"location": "local", "sku": sku}).json
        assert shown["sku"] == {"name": "Basic", "tier": "Regional", **sku}
    public = put(arm, PIP, dnsSettings={"domainNameLabel": "shop"})["properties"]
    assert public["dnsSettings"]["fqdn"] == "shop.local.cloudapp.azure.com"


@pytest.mark.parametrize("label", ["Shop", "1shop", "s", "shop-", "a.b", "x" * 64])
def test_bad_labels(arm: ArmHarness, label: str) -> None:
    """They are refused, and nothing is created."""
    properties: dict[str, Any] = {"dnsSettings": {"domainNameLabel": label}}
    response = arm.put(PIP, {"location": "local", "properties": properties})
    assert refused(response) == (400, "InvalidDomainNameLabel")
    assert arm.get(PIP).status == 404
