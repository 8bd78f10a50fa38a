"""The network interface in instance metadata: address, subnet and MAC address (M19)."""

import re
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.commands import CreateScope, CreateSet, Delete
from fairwarning.core.model import Machine, ScopeKind
from fairwarning.metadata.instance import VERSIONS
from fairwarning.metadata.interfaces import NetworkInterface, choose, derived
from fairwarning.store.sqlite import SQLiteStore
from tests.fixtures.endpoint import EndpointHarness
from tests.fixtures.service import ServiceProcess

pytestmark = pytest.mark.spec("M19")

Json = dict[str, Any]
NUMBERS = st.integers(min_value=1, max_value=16_600_000)
FLEET = Path(__file__).with_name("fleet.toml").read_text("utf-8")


def valid(answer: Json) -> Json:
    """Return the interface of an answer that Azure's Linux agent and cloud-init accept.

    The agent rejects an empty list or text. cloud-init expects a MAC address of twelve digits
    without separators, and a subnet of the address if the interface has several addresses.
    """
    (interface,) = answer["network"]["interface"]
    assert re.fullmatch("[0-9A-F]{12}", interface["macAddress"])
    assert not int(interface["macAddress"][:2], 16) & 1  # not a multicast address
    (address,) = interface["ipv4"]["ipAddress"]
    (subnet,) = interface["ipv4"]["subnet"]
    assert address["privateIpAddress"]
    net = IPv4Network(f"{subnet['address']}/{subnet['prefix']}")
    assert IPv4Address(address["privateIpAddress"]) in net
    assert interface["ipv6"] == {"ipAddress": []}
    shown: Json = interface
    return shown


def interface_of(endpoint: EndpointHarness, machine: str) -> tuple[str, str]:
    """Return the address and the MAC address that a machine sees."""
    target = "/metadata/instance?api-version=2021-08-01&extended=true"  # as cloud-init
    answer = endpoint.send_from(machine, "GET", target, {"Metadata": "true"}).json
    interface = valid(answer)
    return interface["ipv4"]["ipAddress"][0]["privateIpAddress"], interface["macAddress"]


def test_every_machine_of_a_fleet_has_an_interface(tmp_path: Path) -> None:
    """However it was created: all have different values, which survive a restart."""
    names = ["db", *(f"{kind}_{n}" for kind in ("vm", "av", "web") for n in range(3))]
    names += [f"FrontEnd_IN_{n}" for n in range(2)]
    target = "/metadata/instance?api-version=2018-02-01"  # as Azure's Linux agent
    shown = []
    for _ in range(2):
        with ServiceProcess(tmp_path / "data", fleet=FLEET) as service:
            shown.append({name: valid(service.get(name, target).json) for name in names})
            service.stop()
    assert shown[0] == shown[1]
    addresses = {
        each["ipv4"]["ipAddress"][0]["privateIpAddress"]: each["macAddress"]
        for each in shown[0].values()
    }
    assert len(addresses) == len(set(addresses.values())) == len(names)
    assert "192.168.7.9" in addresses


def test_every_version_shows_the_interface(endpoint: EndpointHarness) -> None:
    """The same in all of them."""
    endpoint.make("av", 1)
    macs = set()
    for version in VERSIONS:
        target = f"/metadata/instance?api-version={version}"
        answer = endpoint.send_from("av_0", "GET", target, {"Metadata": "true"}).json
        macs.add(valid(answer)["macAddress"])
    assert macs == {interface_of(endpoint, "av_0")[1]}


def test_values_of_a_machine_never_change(tmp_path: Path) -> None:
    """Not when others are created or deleted; a new machine of the same name has new values."""
    with EndpointHarness(store=SQLiteStore(tmp_path / "store")) as endpoint:
        endpoint.make("av", 3)
        endpoint.create(CreateSet(set="web", capacity=2))
        names = ("av_0", "av_2", "web_1")
        before = {name: interface_of(endpoint, name) for name in names}
        lost = interface_of(endpoint, "av_1")
        endpoint.do(Delete(scope="av", operation="delete", machines=("av_1",)))
        endpoint.make("other", 3)
        assert {name: interface_of(endpoint, name) for name in names} == before
    with EndpointHarness(store=SQLiteStore(tmp_path / "store")) as endpoint:
        endpoint.learn_addresses()
        assert {name: interface_of(endpoint, name) for name in names} == before
        machines = (Machine(name="av_1"),)
        endpoint.create(CreateScope(scope="later", kind=ScopeKind.STANDALONE, machines=machines))
        assert not set(interface_of(endpoint, "av_1")) & set(lost)


@pytest.mark.parametrize("kind", [ScopeKind.AVAILABILITY_SET, ScopeKind.CLOUD_SERVICE])
def test_no_machine_has_the_configured_address_of_another(kind: ScopeKind) -> None:
    """A configured address is shown as it is, so other machines of the scope avoid it."""
    derived_addresses = [next(derived(number)).address for number in (1, 2, 3)]
    machines = (
        Machine(name="a", address=derived_addresses[1]),
        Machine(name="b"),
        Machine(name="c", address=derived_addresses[0]),
    )
    with EndpointHarness() as endpoint:
        endpoint.create(CreateScope(scope="x", kind=kind, machines=machines))
        shown = [interface_of(endpoint, name) for name in ("a", "b", "c")]
    assert (shown[0][0], shown[2][0]) == (derived_addresses[1], derived_addresses[0])
    assert len({address for address, _ in shown}) == len({mac for _, mac in shown}) == 3


@given(number=NUMBERS, other=NUMBERS)
def test_derived_interfaces(number: int, other: int) -> None:
    """Each is a usable address of its subnet; different numbers have different ones."""
    interface = next(derived(number))
    net = IPv4Network(f"{interface.subnet}/{interface.prefix}")
    position = int(IPv4Address(interface.address)) - int(net[0])
    assert 4 <= position < net.num_addresses - 1
    assert IPv4Address(interface.address).is_private
    assert (next(derived(other)) == interface) == (number == other)
    if number != other:
        assert next(derived(other)).address != interface.address
        assert next(derived(other)).mac != interface.mac


@pytest.mark.parametrize(
    ("configured", "interface"),
    [
        ("10.1.2.3", NetworkInterface("10.1.2.3", 24, "002248000001")),
        ("172.20.0.9", NetworkInterface("172.20.0.9", 24, "002248000001")),
        ("100.64.3.4", NetworkInterface("100.64.3.4", 24, "002248000001")),
        ("127.0.0.7", NetworkInterface("10.128.0.4", 16, "002248000001")),
        ("20.1.2.3", NetworkInterface("10.128.0.4", 16, "002248000001", public="20.1.2.3")),
        ("fd00::7", NetworkInterface("10.128.0.4", 16, "002248000001", ipv6="fd00::7")),
    ],
)
def test_a_configured_address(configured: str, interface: NetworkInterface) -> None:
    """A private one is shown; for any other, the machine has a private one too."""
    assert choose(1, configured, None, {configured}) == interface
