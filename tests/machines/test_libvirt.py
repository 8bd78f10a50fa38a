"""The libvirt driver: what each impact is to a domain, and what is said when it cannot be."""

import sys

import pytest

from fairwarning.core.errors import Refused
from fairwarning.machines.libvirt import host as hosts
from fairwarning.machines.libvirt.record import PREFIX, RECORD, DomainRecord, read
from tests.docs.pages import DOCS, blocks
from tests.fixtures.requirements import needs_libvirt
from tests.fixtures.waiting import run_async, wait_until_async
from tests.machines.libvirt_harness import (
    URI,
    impact,
    libvirt,
    libvirt_harness,
    machine_element,
    open_hypervisor,
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
@run_async
async def test_what_an_impact_is_to_a_domain(kind: str, history: str, state: str) -> None:
    """It happens once, is reported, and the domain is left as it has to be."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        async with libvirt_harness() as driver:
            assert await driver.over(impact(kind, seconds=1)) == ""
        assert (await hypervisor.history(), hypervisor.state()) == (history, state)


@pytest.mark.spec("E9")
@pytest.mark.parametrize("kind", ["reboot", "redeploy", "reimage", "start"])
@run_async
async def test_a_domain_that_is_off_is_on_afterwards(kind: str) -> None:
    """There is nothing to power off, so it is started only."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0", running=False)
        async with libvirt_harness() as driver:
            assert await driver.over(impact(kind)) == ""
        assert hypervisor.state() == "running"


@pytest.mark.parametrize("kind", ["freeze", "evict", "stop"])
@run_async
async def test_a_domain_that_is_off_stays_so(kind: str) -> None:
    """Nothing has to be done, and that is no failure."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0", running=False)
        async with libvirt_harness() as driver:
            assert await driver.over(impact(kind)) == ""
        assert hypervisor.state() == "off"


@pytest.mark.parametrize("running", [True, False])
@run_async
async def test_a_deleted_domain_is_forgotten(running: bool) -> None:
    """Also what was saved of it; another impact finds nothing; to delete it again is no failure."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0", running=running)
        hypervisor.define("web_1").managedSave()
        async with libvirt_harness() as driver:
            assert await driver.over(impact("delete")) == ""
            assert await driver.over(impact("delete", "web_1")) == ""
            assert hypervisor.names() == []
            assert await driver.over(impact("delete")) == ""
            assert "there is no domain for web_0" in await driver.over(impact("reboot", number=2))


@run_async
async def test_a_pause_of_the_owner_is_not_ended() -> None:
    """A domain that was paused before stays paused through a freeze; a reboot ends the pause."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0").suspend()
        async with libvirt_harness() as driver:
            assert await driver.over(impact("freeze", seconds=1)) == ""
            assert hypervisor.state() == "paused"
            assert await driver.over(impact("reboot", number=2)) == ""
        assert await hypervisor.history() == "suspended stopped started"


@run_async
async def test_impacts_of_one_machine_follow_each_other() -> None:
    """Of different machines they go on side by side."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        hypervisor.define("web_1")
        async with libvirt_harness() as driver:
            freezes = [impact("freeze", name, seconds=1) for name in ("web_0", "web_1")]
            driver.give(*freezes, impact("stop", number=2), impact("start", number=3))
            await wait_until_async(
                lambda: hypervisor.state("web_0") == hypervisor.state("web_1") == "paused",
                "both stand",
            )
            await wait_until_async(lambda: len(driver.reports) == 4, "all are over")
        assert await hypervisor.history() == "suspended resumed stopped started"
        assert {error for _, error in driver.reports} == {""}


# --- Which domain is the machine ---


@pytest.mark.parametrize("scope", ["web", ""])
@run_async
async def test_a_domain_says_which_machine_it_is(scope: str) -> None:
    """Its metadata counts for more than a name; without a scope it fits every scope."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        hypervisor.define("anything", machine_element(scope, "web_0"))
        async with libvirt_harness() as driver:
            assert await driver.over(impact("stop")) == ""
        assert (hypervisor.state("web_0"), hypervisor.state("anything")) == ("running", "off")


@run_async
async def test_the_element_on_the_page() -> None:
    """As docs/driver-libvirt.md shows it."""
    (block,) = [one for one in blocks(DOCS / "driver-libvirt.md") if one.language == "xml"]
    element = block.text.removeprefix("<metadata>\n").removesuffix("</metadata>\n")
    with open_hypervisor() as hypervisor:
        hypervisor.define("vm-17", element)
        async with libvirt_harness() as driver:
            assert await driver.over(impact("stop", "web_3")) == ""
        assert hypervisor.state("vm-17") == "off"


@run_async
async def test_a_domain_that_says_it_is_another_machine_is_left_alone() -> None:
    """Whatever it is called."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0", machine_element("web", "web_7"))
        hypervisor.define("x", machine_element("db", "web_0"))
        async with libvirt_harness() as driver:
            error = await driver.over(impact("evict"))
        assert "there is no domain for web_0 at test:///default; define one" in error
        assert (hypervisor.state("web_0"), hypervisor.state("x")) == ("running", "running")


@run_async
async def test_two_domains_cannot_be_one_machine() -> None:
    """Nothing is done to either."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("a", machine_element("web", "web_0"))
        hypervisor.define("b", machine_element("web", "web_0"))
        async with libvirt_harness() as driver:
            error = await driver.over(impact("delete"))
        assert "a, b all say that they are web_0 of web" in error
        assert (hypervisor.state("a"), hypervisor.state("b")) == ("running", "running")


@run_async
async def test_a_transient_domain_is_not_lost() -> None:
    """What must come back has to be defined; what ends for good, or only stands, need not."""
    with open_hypervisor() as hypervisor:
        hypervisor.transient("web_0")
        async with libvirt_harness() as driver:
            error = await driver.over(impact("reboot"))
            assert "transient" in error
            assert "virsh define" in error
            assert await driver.over(impact("freeze", seconds=1, number=2)) == ""
            assert await hypervisor.history() == "suspended resumed"
            assert await driver.over(impact("evict", number=3)) == ""
        assert hypervisor.names() == []


# --- What goes wrong ---


@run_async
async def test_what_libvirt_says_is_reported() -> None:
    """With what to do next; and the machine's next impact need not wait for this one."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        async with libvirt_harness(destination=URI) as driver:
            error = await driver.over(impact("redeploy"))
        assert "web_0 could not be moved to test:///default: this function is not" in error
        assert "see what the log of libvirt" in error
        assert hypervisor.state() == "running"
        assert hypervisor.record().by == ""


@run_async
async def test_metadata_that_is_not_ours_to_read() -> None:
    """Somebody wrote something else there: the impact is carried out, and noted."""
    with open_hypervisor() as hypervisor:
        strange = '<impact step="nowhere" beat="x"/>'
        element = libvirt.VIR_DOMAIN_METADATA_ELEMENT
        hypervisor.define("web_0").setMetadata(element, strange, PREFIX, RECORD)
        async with libvirt_harness() as driver:
            assert await driver.over(impact("reboot")) == ""
        assert await hypervisor.history() == "stopped started"
        assert hypervisor.record() == DomainRecord(impact="event-1:web_0", done=("event-1:web_0",))
        assert read("not even XML") == DomainRecord()


def test_without_libvirt_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start, not at the first impact."""
    monkeypatch.setitem(sys.modules, "libvirt", None)
    with pytest.raises(Refused, match=r"install fairwarning\[libvirt\].*python3-libvirt"):
        hosts.library.__wrapped__()
