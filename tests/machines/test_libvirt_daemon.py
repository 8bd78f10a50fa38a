"""The libvirt driver with a libvirtd: impacts when either of them stops."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from fairwarning.machines.libvirt import host as hosts
from tests.fixtures.requirements import needs_libvirt, needs_libvirtd
from tests.fixtures.waiting import wait_until_async
from tests.machines.libvirt_daemon import Daemon, daemon
from tests.machines.libvirt_harness import impact, libvirt_harness, open_hypervisor

pytestmark = [needs_libvirt, needs_libvirtd]


class Proxy:
    """A proxy between a driver and its libvirtd that can be closed and opened."""

    def __init__(self, libvirtd: Daemon) -> None:
        self._to = libvirtd.socket
        self._socket = libvirtd.folder / "proxy"
        self.uri = libvirtd.uri("test", "default", self._socket)
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._forward, self._socket)

    async def close(self) -> None:
        """Drop all connections and refuse new ones."""
        if self._server is not None:
            self._server.close()
            self._socket.unlink(missing_ok=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server_writer = await asyncio.open_unix_connection(self._to)
        both = {writer, server_writer}
        self._writers |= both
        await asyncio.gather(_copy(reader, server_writer), _copy(server_reader, writer))
        self._writers -= both


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def closed_proxy(libvirtd: Daemon) -> AsyncIterator[Proxy]:
    """Provide a proxy that is closed."""
    proxy = Proxy(libvirtd)
    try:
        yield proxy
    finally:
        await proxy.close()


async def test_a_connection_that_is_lost() -> None:
    """The driver reconnects, and the impact continues."""
    with daemon() as libvirtd, open_hypervisor(libvirtd.uri("test", "default")) as hypervisor:
        hypervisor.define("web_0")
        async with closed_proxy(libvirtd) as proxy:
            await proxy.open()
            async with libvirt_harness(proxy.uri) as driver:
                driver.submit(impact("freeze", seconds=2))
                await wait_until_async(lambda: hypervisor.state() == "paused", "it is frozen")
                await proxy.close()
                await proxy.open()
                await wait_until_async(lambda: driver.reports != [], "it is over")
                assert driver.reports == [("event-1:web_0", "")]
        assert await hypervisor.history() == "suspended resumed"


async def test_a_libvirtd_that_is_unreachable() -> None:
    """The driver keeps trying, and reports the reason if the time limit passes."""
    with daemon() as libvirtd, open_hypervisor(libvirtd.uri("test", "default")) as hypervisor:
        hypervisor.define("web_0")
        async with closed_proxy(libvirtd) as proxy:
            async with libvirt_harness(proxy.uri, timeout_seconds=1) as driver:
                error = await driver.execute(impact("reboot"))
                assert "not done within 1 s" in error
                assert f"libvirt at {proxy.uri} cannot be reached" in error
                assert "check that it is running" in error
            async with libvirt_harness(proxy.uri) as driver:
                driver.submit(impact("reboot"))
                (host,) = driver.driver._options.hosts
                await wait_until_async(lambda: host._opening is not None, "it tries")
                await proxy.open()
                await wait_until_async(lambda: driver.reports != [], "it is over")
                assert driver.reports == [("event-1:web_0", "")]
        assert await hypervisor.history() == "stopped started"


async def test_a_libvirtd_that_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keepalive detects it, and the impact continues when libvirtd is resumed."""
    monkeypatch.setattr(hosts, "_KEEPALIVE_SECONDS", 1)
    monkeypatch.setattr(hosts, "_KEEPALIVE_MISSES", 1)
    with daemon() as libvirtd, open_hypervisor(libvirtd.uri("test", "default")) as hypervisor:
        hypervisor.define("web_0")
        async with libvirt_harness(libvirtd.uri("test", "default")) as driver:
            driver.submit(impact("freeze", seconds=1))
            await wait_until_async(lambda: hypervisor.state() == "paused", "it is frozen")
            (host,) = driver.driver._options.hosts
            before = host._connection
            libvirtd.process.send_signal(signal.SIGSTOP)
            await wait_until_async(lambda: not hosts._is_alive(before), "it is noticed")
            libvirtd.process.send_signal(signal.SIGCONT)
            await wait_until_async(lambda: driver.reports != [], "it is over")
            assert driver.reports == [("event-1:web_0", "")]
        assert await hypervisor.history() == "suspended resumed"
