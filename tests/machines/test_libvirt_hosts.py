"""The libvirt driver with two hosts: finding a domain on either, and migrations between them."""

import socket
from contextlib import closing
from pathlib import Path

import pytest

from fairwarning.machines.libvirt import host as hosts
from tests.fixtures.requirements import needs_libvirt
from tests.fixtures.waiting import run_async
from tests.machines.libvirt_harness import URI, impact, libvirt_harness, open_hypervisor

pytestmark = needs_libvirt


def _uri(path: Path) -> str:
    """Return the URI of a libvirtd with this socket."""
    return f"test+unix:///default?socket={path}"


# --- A host that cannot be reached ---


@pytest.mark.spec("E9")
@run_async
async def test_a_domain_on_the_second_host_while_the_first_is_down(tmp_path: Path) -> None:
    """The driver executes its impacts."""
    with open_hypervisor() as hypervisor:
        hypervisor.define("web_0")
        async with libvirt_harness(_uri(tmp_path / "down"), destination=URI) as driver:
            assert await driver.execute(impact("reboot")) == ""
            assert await hypervisor.history() == "stopped started"
            assert await driver.execute(impact("delete", number=2)) == ""
        assert hypervisor.names() == []


@run_async
async def test_a_domain_on_the_second_host_while_the_first_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver does not wait until the connection fails, which may take minutes."""
    monkeypatch.setattr(hosts, "_WAIT_SECONDS", 0.2)
    with closing(socket.socket(socket.AF_UNIX)) as silent, open_hypervisor() as hypervisor:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()
        hypervisor.define("web_0")
        async with libvirt_harness(_uri(tmp_path / "silent"), destination=URI) as driver:
            assert await driver.execute(impact("stop")) == ""
        assert hypervisor.state() == "off"


@pytest.mark.parametrize("kind", ["stop", "delete"])
@run_async
async def test_a_domain_that_may_be_on_the_host_that_is_down(kind: str, tmp_path: Path) -> None:
    """Whether it exists is unknown, so the driver keeps trying, and reports why it failed."""
    uri = _uri(tmp_path / "down")
    with open_hypervisor():
        async with libvirt_harness(uri, destination=URI, timeout_seconds=1) as driver:
            error = await driver.execute(impact(kind))
        assert error.startswith(f"not done within 1 s: libvirt at {uri} cannot be reached: ")
