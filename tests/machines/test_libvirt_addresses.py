"""The libvirt driver finds the guest that has an address (M22)."""

import pytest

from fairwarning.machines.libvirt.driver import LibvirtDriver
from tests.fixtures.requirements import needs_libvirt
from tests.fixtures.waiting import run_async
from tests.machines.libvirt_harness import URI, Hypervisor, machine_element, open_hypervisor

pytestmark = [needs_libvirt, pytest.mark.spec("M22")]


def leased(hypervisor: Hypervisor, name: str) -> str:
    """The address for which a domain has a lease."""
    domain = hypervisor.connection.lookupByName(name)
    (interface,) = domain.interfaceAddresses(0).values()
    address: str = interface["addrs"][0]["addr"]
    return address


@run_async
async def test_a_guest_is_found_by_its_lease() -> None:
    """By the name of its domain, or by the machine that its metadata names."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("vm")
        hypervisor.define("other", machine_element("web/0", "web_3"))
        driver = LibvirtDriver(URI)
        addresses = {leased(hypervisor, name): name for name in ("vm", "other")}
        expected = {"vm": "vm", "other": "web/0/web_3"}
        for address, name in addresses.items():
            assert await driver.guest_at(address) == expected[name]
        assert await driver.guest_at("192.168.122.254") == ""
        await driver.close()


@run_async
async def test_a_host_that_cannot_be_reached() -> None:
    """No machine is found, and the caller is told so; the log says why."""
    driver = LibvirtDriver("test:///no-such-file")
    assert await driver.guest_at("10.0.0.4") == ""
    await driver.close()
