"""The libvirt driver: the effect of each impact on a domain, and the errors."""

import sys
from typing import Any

import pytest

from fairwarning.core.errors import Refused
from fairwarning.machines.libvirt import host as hosts
from fairwarning.machines.libvirt import impacts
from fairwarning.machines.libvirt.driver import LibvirtDriver
from fairwarning.machines.libvirt.record import PREFIX, RECORD, DomainRecord, read
from tests.docs.pages import DOCS, blocks
from tests.fixtures.requirements import needs_libvirt
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until_async
from tests.machines.libvirt_harness import (
    URI,
    Hypervisor,
    LibvirtHarness,
    impact,
    libvirt,
    libvirt_harness,
    machine_element,
    open_hypervisor,
    with_driver,
)

pytestmark = needs_libvirt


@pytest.mark.spec("E9")
@pytest.mark.parametrize(
    ("kind", "history", "state"),
    [
        ("reboot", "stopped started", "running"),
        ("redeploy", "stopped started", "running"),
        ("reimage", "stopped started", "running"),
        ("freeze", "suspended resumed", "running"),
        ("evict", "stopped", "off"),
        ("stop", "stopped", "off"),
        ("deallocate", "stopped", "off"),
        ("start", "", "running"),
    ],
)
@with_driver
async def test_the_effect_of_an_impact(
    hypervisor: Hypervisor, driver: LibvirtHarness, kind: str, history: str, state: str
) -> None:
    """It happens once, is reported, and leaves the domain in the right state."""
    hypervisor.define("web_0")
    assert await driver.execute(impact(kind, seconds=1)) == ""
    assert (await hypervisor.history(), hypervisor.state()) == (history, state)


@pytest.mark.spec("E9")
async def test_a_guest_that_misses_the_request_to_shut_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is asked again, not powered off: its agent may start late."""
    asked: list[str] = []
    shut_down = libvirt.virDomain.shutdown

    def listen_late(domain: Any) -> object:  # noqa: ANN401  (libvirt has no types)
        asked.append(domain.name())
        return shut_down(domain) if len(asked) == 3 else 0

    monkeypatch.setattr(libvirt.virDomain, "shutdown", listen_late)
    monkeypatch.setattr(impacts, "_ASK_AGAIN_SECONDS", 0.05)
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        async with libvirt_harness(grace_seconds=LIMIT_SECONDS) as harness:
            assert await harness.execute(impact("stop")) == ""
        assert asked == ["web_0"] * 3
        assert hypervisor.state() == "off"


@pytest.mark.spec("E9")
@pytest.mark.parametrize(
    ("state", "kind"),
    [
        *(("running", kind) for kind in ("reboot", "redeploy", "reimage", "start")),
        *(("off", kind) for kind in ("freeze", "evict", "stop")),
    ],
)
@with_driver
async def test_a_domain_that_is_off(
    hypervisor: Hypervisor, driver: LibvirtHarness, state: str, kind: str
) -> None:
    """There is nothing to power off: the driver only starts it, or leaves it off."""
    hypervisor.define("web_0", running=False)
    assert await driver.execute(impact(kind)) == ""
    assert hypervisor.state() == state


@pytest.mark.parametrize("running", [True, False])
@with_driver
async def test_a_deleted_domain_is_undefined(
    hypervisor: Hypervisor, driver: LibvirtHarness, running: bool
) -> None:
    """Its managed save goes too. Another impact finds no domain; deleting it again succeeds."""
    hypervisor.define("web_0", running=running)
    hypervisor.define("web_1").managedSave()
    assert await driver.execute(impact("delete")) == ""
    assert await driver.execute(impact("delete", "web_1")) == ""
    assert hypervisor.names() == []
    assert await driver.execute(impact("delete")) == ""
    assert "there is no domain for web_0" in await driver.execute(impact("reboot", number=2))


@with_driver
async def test_a_domain_paused_by_its_owner(hypervisor: Hypervisor, driver: LibvirtHarness) -> None:
    """It stays paused through a freeze; a reboot ends the pause."""
    hypervisor.define("web_0").suspend()
    assert await driver.execute(impact("freeze", seconds=1)) == ""
    assert hypervisor.state() == "paused"
    assert await driver.execute(impact("reboot", number=2)) == ""
    assert await hypervisor.history() == "suspended stopped started"


@with_driver
async def test_impacts_of_one_machine_are_sequential(
    hypervisor: Hypervisor, driver: LibvirtHarness
) -> None:
    """Impacts of different machines run concurrently."""
    hypervisor.define("web_0")
    hypervisor.define("web_1")
    freezes = [impact("freeze", name, seconds=1) for name in ("web_0", "web_1")]
    driver.submit(*freezes, impact("stop", number=2), impact("start", number=3))
    await wait_until_async(
        lambda: hypervisor.state("web_0") == hypervisor.state("web_1") == "paused",
        "both are paused",
    )
    await wait_until_async(lambda: len(driver.reports) == 4, "all are over")
    assert await hypervisor.history() == "suspended resumed stopped started"
    assert {error for _, error in driver.reports} == {""}


# --- Finding the domain of a machine ---


@pytest.mark.parametrize("scope", ["web", ""])
@with_driver
async def test_metadata_identifies_the_machine(
    hypervisor: Hypervisor, driver: LibvirtHarness, scope: str
) -> None:
    """It takes precedence over a name; without a scope it fits every scope."""
    hypervisor.define("web_0")
    hypervisor.define("anything", machine_element(scope, "web_0"))
    assert await driver.execute(impact("stop")) == ""
    assert (hypervisor.state("web_0"), hypervisor.state("anything")) == ("running", "off")


@with_driver
async def test_the_element_in_the_documentation(
    hypervisor: Hypervisor, driver: LibvirtHarness
) -> None:
    """It works as docs/driver-libvirt.md shows it."""
    (block,) = [block for block in blocks(DOCS / "driver-libvirt.md") if block.language == "xml"]
    element = block.text.removeprefix("<metadata>\n").removesuffix("</metadata>\n")
    hypervisor.define("vm-17", element)
    assert await driver.execute(impact("stop", "web_3")) == ""
    assert hypervisor.state("vm-17") == "off"


@pytest.mark.parametrize(
    ("machines", "text"),
    [
        ((("web", "web_7"), ("db", "web_0")), "there is no domain for web_0 at test:///default"),
        ((("web", "web_0"), ("web", "web_0")), "web_0, x all name web_0 of web"),
    ],
)
@with_driver
async def test_metadata_that_does_not_identify_the_machine(
    hypervisor: Hypervisor,
    driver: LibvirtHarness,
    machines: tuple[tuple[str, str], ...],
    text: str,
) -> None:
    """No domain is touched, whatever its name is: it is another machine's, or one of two."""
    for name, machine in zip(("web_0", "x"), machines, strict=True):
        hypervisor.define(name, machine_element(*machine))
    assert text in await driver.execute(impact("evict"))
    assert (hypervisor.state("web_0"), hypervisor.state("x")) == ("running", "running")


@with_driver
async def test_a_transient_domain_is_not_lost(
    hypervisor: Hypervisor, driver: LibvirtHarness
) -> None:
    """An impact that must start it again is refused; an eviction or a freeze is not."""
    hypervisor.transient("web_0")
    error = await driver.execute(impact("reboot"))
    assert "transient" in error
    assert "virsh define" in error
    assert await driver.execute(impact("freeze", seconds=1, number=2)) == ""
    assert await hypervisor.history() == "suspended resumed"
    assert await driver.execute(impact("evict", number=3)) == ""
    assert hypervisor.names() == []


# --- Finding the guest that has an address ---


def leased(hypervisor: Hypervisor, name: str) -> str:
    """The address for which a domain has a lease."""
    domain = hypervisor.connection.lookupByName(name)
    (interface,) = domain.interfaceAddresses(0).values()
    address: str = interface["addrs"][0]["addr"]
    return address


@pytest.mark.spec("M22")
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


@pytest.mark.spec("M22")
async def test_a_host_that_cannot_be_reached() -> None:
    """No machine is found, and the caller is told so; the log says why."""
    driver = LibvirtDriver("test:///no-such-file")
    assert await driver.guest_at("10.0.0.4") == ""
    await driver.close()


# --- Errors ---


async def test_errors_of_libvirt_are_reported() -> None:
    """The error says what to do; the claim is released for the machine's next impact."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        async with libvirt_harness(destination=URI) as driver:
            error = await driver.execute(impact("redeploy"))
        assert "web_0 could not be migrated to test:///default: this function is not" in error
        assert "see the log of libvirt" in error
        assert hypervisor.state() == "running"
        assert hypervisor.record().owner == ""


@with_driver
async def test_metadata_that_is_malformed(hypervisor: Hypervisor, driver: LibvirtHarness) -> None:
    """The driver executes the impact and overwrites the metadata."""
    malformed = '<impact step="nowhere" beat="x"/>'
    element = libvirt.VIR_DOMAIN_METADATA_ELEMENT
    hypervisor.define("web_0").setMetadata(element, malformed, PREFIX, RECORD)
    assert await driver.execute(impact("reboot")) == ""
    assert await hypervisor.history() == "stopped started"
    assert hypervisor.record() == DomainRecord(impact="event-1:web_0", done=("event-1:web_0",))
    assert read("not even XML") == DomainRecord()


def test_without_libvirt_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes at the start, not at the first impact."""
    monkeypatch.setitem(sys.modules, "libvirt", None)
    with pytest.raises(Refused, match=r"install fairwarning\[libvirt\].*python3-libvirt"):
        hosts.library.__wrapped__()
