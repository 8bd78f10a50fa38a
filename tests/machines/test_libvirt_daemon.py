"""The libvirt driver and a libvirtd: what becomes of impacts when either goes away."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from fairwarning.machines.libvirt import host as hosts
from tests.docs.pages import ROOT
from tests.fixtures.requirements import needs_libvirt, needs_libvirtd
from tests.fixtures.waiting import run_async, wait_until_async
from tests.machines.libvirt_daemon import Daemon, daemon
from tests.machines.libvirt_harness import hypervisor, impact, libvirt_harness

pytestmark = [needs_libvirt, needs_libvirtd]

# A service that carries one impact out: URI, kind, duration.
SERVICE = """
import asyncio, sys
from tests.machines.libvirt_stage import hands, impact

async def main():
    async with hands(sys.argv[1], claim_seconds=2) as driver:
        print(await driver.over(impact(sys.argv[2], seconds=int(sys.argv[3]))), flush=True)

asyncio.run(main())
"""


class Wire:
    """Between a driver and its libvirtd: can be cut, and mended."""

    def __init__(self, libvirtd: Daemon) -> None:
        self._to = libvirtd.socket
        self._socket = libvirtd.folder / "wire"
        self.uri = libvirtd.uri("test", "default", self._socket)
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def mend(self) -> None:
        self._server = await asyncio.start_unix_server(self._join, self._socket)

    async def cut(self) -> None:
        """Whoever is connected is disconnected; nobody else gets through."""
        if self._server is not None:
            self._server.close()
            self._socket.unlink(missing_ok=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_unix_connection(self._to)
        both = {writer, there_writer}
        self._writers |= both
        await asyncio.gather(_carry(reader, there_writer), _carry(there_reader, writer))
        self._writers -= both


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def wire(libvirtd: Daemon) -> AsyncIterator[Wire]:
    """One that is cut."""
    made = Wire(libvirtd)
    try:
        yield made
    finally:
        await made.cut()


@run_async
async def test_a_connection_that_is_lost() -> None:
    """It is opened again, and the impact goes on where it was."""
    with daemon() as libvirtd, hypervisor(libvirtd.uri("test", "default")) as it:
        it.define("web_0")
        async with wire(libvirtd) as line:
            await line.mend()
            async with libvirt_harness(line.uri) as driver:
                driver.give(impact("freeze", seconds=2))
                await wait_until_async(lambda: it.state() == "paused", "it is frozen")
                await line.cut()
                await line.mend()
                await wait_until_async(lambda: driver.reports != [], "it is over")
                assert driver.reports == [("event-1:web_0", "")]
        assert await it.history() == "suspended resumed"


@run_async
async def test_a_libvirtd_that_is_away() -> None:
    """The driver keeps trying; if that is in vain until its time is up, it says so."""
    with daemon() as libvirtd, hypervisor(libvirtd.uri("test", "default")) as it:
        it.define("web_0")
        async with wire(libvirtd) as line:
            async with libvirt_harness(line.uri, timeout_seconds=1) as driver:
                error = await driver.over(impact("reboot"))
                assert "not done within 1 s" in error
                assert f"libvirt at {line.uri} cannot be reached" in error
                assert "see that it runs there" in error
            async with libvirt_harness(line.uri) as driver:
                driver.give(impact("reboot"))
                (host,) = driver.driver._ways.hosts
                await wait_until_async(lambda: host._opening is not None, "it tries")
                await line.mend()
                await wait_until_async(lambda: driver.reports != [], "it is over")
                assert driver.reports == [("event-1:web_0", "")]
        assert await it.history() == "stopped started"


@run_async
async def test_a_libvirtd_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is noticed by the keepalive, and when it moves again the impact goes on."""
    monkeypatch.setattr(hosts, "_KEEPALIVE_SECONDS", 1)
    monkeypatch.setattr(hosts, "_KEEPALIVE_MISSES", 1)
    with daemon() as libvirtd, hypervisor(libvirtd.uri("test", "default")) as it:
        it.define("web_0")
        async with libvirt_harness(libvirtd.uri("test", "default")) as driver:
            driver.give(impact("freeze", seconds=1))
            await wait_until_async(lambda: it.state() == "paused", "it is frozen")
            (host,) = driver.driver._ways.hosts
            before = host._connection
            libvirtd.process.send_signal(signal.SIGSTOP)
            await wait_until_async(lambda: not hosts._is_alive(before), "it is noticed")
            libvirtd.process.send_signal(signal.SIGCONT)
            await wait_until_async(lambda: driver.reports != [], "it is over")
            assert driver.reports == [("event-1:web_0", "")]
        assert await it.history() == "suspended resumed"


async def _service(uri: str, kind: str, seconds: int, folder: Path) -> asyncio.subprocess.Process:
    words = (sys.executable, "-c", SERVICE, uri, kind, str(seconds))
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    return await asyncio.create_subprocess_exec(
        *words, cwd=folder, env=environment, stdout=subprocess.PIPE
    )


@pytest.mark.spec("E9")
@run_async
async def test_a_service_that_is_killed(tmp_path: Path) -> None:
    """Another process takes the frozen domain over, and lets it go on."""
    with daemon() as libvirtd, hypervisor(libvirtd.uri("test", "default")) as it:
        uri = libvirtd.uri("test", "default")
        it.define("web_0")
        service = await _service(uri, "freeze", 2, tmp_path)
        await wait_until_async(lambda: it.state() == "paused", "it is frozen")
        service.kill()
        await service.communicate()
        async with libvirt_harness(uri, claim_seconds=1) as driver:
            assert await driver.over(impact("freeze", seconds=2)) == ""
        assert (it.state(), await it.history()) == ("running", "suspended resumed")


@pytest.mark.spec("E9")
@run_async
async def test_several_services_at_once(tmp_path: Path) -> None:
    """Processes of a cluster that are all handed one impact: one acts, all report."""
    with daemon() as libvirtd, hypervisor(libvirtd.uri("test", "default")) as it:
        uri = libvirtd.uri("test", "default")
        it.define("web_0")
        services = [await _service(uri, "reboot", 0, tmp_path) for _ in range(3)]
        said = [(await service.communicate())[0] for service in services]
        assert set(said) == {b"\n"}
        assert await it.history() == "stopped started"
