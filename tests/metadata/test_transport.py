"""The transport of a connection, with a protocol that records what it is told."""

import asyncio
import errno
import logging
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import uvloop

from fairwarning.metadata.socket_events import EpollEvents, SocketEvents
from fairwarning.metadata.transport import SocketTransport
from tests.fixtures.waiting import wait_until_async

pytestmark = pytest.mark.spec("M17")

_LARGE = 4 * 1024 * 1024  # more than any socket takes at once


class Recorder(asyncio.Protocol):
    def __init__(self) -> None:
        self.received = b""
        self.calls: list[str] = []
        self.stays_open = False

    def data_received(self, data: bytes) -> None:
        self.received += data
        if data == b"fail":
            raise ValueError("cannot read this")

    def eof_received(self) -> bool:
        self.calls.append("eof")
        return self.stays_open

    def pause_writing(self) -> None:
        self.calls.append("pause")

    def resume_writing(self) -> None:
        self.calls.append("resume")

    def connection_lost(self, error: Exception | None) -> None:
        self.calls.append(type(error).__name__ if error else "closed")


Connected = tuple[SocketTransport, Recorder, socket.socket]
RunTest = Callable[[Callable[[Connected], Awaitable[None]]], None]


@asynccontextmanager
async def connected(make_events: type[SocketEvents]) -> AsyncIterator[Connected]:
    """A transport with its protocol, and the socket of its client."""
    events = make_events(asyncio.get_running_loop())
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        descriptor, _ = server._accept()  # type: ignore[attr-defined]
    protocol = Recorder()
    sock = socket.SocketType(socket.AF_INET, socket.SOCK_STREAM, 0, descriptor)
    transport = SocketTransport(sock, protocol, events)
    transport.start()
    with client:
        client.settimeout(0)
        yield transport, protocol, client
        transport.abort()
        await asyncio.sleep(0)
    events.close()


@pytest.fixture(params=["epoll", "loop"])
def run(request: pytest.FixtureRequest) -> RunTest:
    """Run a test with each way of waiting for sockets."""
    make_events = EpollEvents if request.param == "epoll" else SocketEvents

    def run(test: Callable[[Connected], Awaitable[None]]) -> None:
        async def main() -> None:
            async with connected(make_events) as parts:
                await test(parts)

        uvloop.run(main())

    return run


async def read_until_end(client: socket.socket) -> bytes:
    """Read all that the transport sends, until it closes its side."""
    loop, received = asyncio.get_running_loop(), b""
    while data := await loop.sock_recv(client, 1024 * 1024):
        received += data
    return received


def test_a_client_that_reads_slowly(run: RunTest) -> None:
    """The protocol is paused while much is buffered; everything arrives, then the end."""

    async def test(parts: Connected) -> None:
        transport, protocol, client = parts
        sent = bytes(range(256)) * (_LARGE // 256)
        transport.write(sent)
        transport.write(b"last")
        assert protocol.calls == ["pause"]
        assert transport.get_write_buffer_size() > 0
        transport.close()
        assert transport.is_closing()
        assert await read_until_end(client) == sent + b"last"
        await wait_until_async(lambda: protocol.calls == ["pause", "resume", "closed"])

    run(test)


def test_the_end_of_the_sending_side(run: RunTest) -> None:
    """It follows what is buffered, and the client can still send."""

    async def test(parts: Connected) -> None:
        transport, protocol, client = parts
        transport.write(b"x" * _LARGE)
        transport.write_eof()
        assert len(await read_until_end(client)) == _LARGE
        client.send(b"more")
        await wait_until_async(lambda: protocol.received == b"more")

    run(test)


@pytest.mark.parametrize("stays_open", [True, False])
def test_a_client_that_sends_no_more(run: RunTest, stays_open: bool) -> None:
    """The protocol decides whether the connection stays open, and is told once."""

    async def test(parts: Connected) -> None:
        transport, protocol, client = parts
        protocol.stays_open = stays_open
        client.shutdown(socket.SHUT_WR)
        expected = ["eof"] if stays_open else ["eof", "closed"]
        await wait_until_async(lambda: protocol.calls == expected)
        transport.pause_reading()
        transport.resume_reading()
        transport.write(b"response")
        transport.close()
        assert await read_until_end(client) == (b"response" if stays_open else b"")
        await wait_until_async(lambda: protocol.calls == ["eof", "closed"])

    run(test)


def test_paused_reading(run: RunTest) -> None:
    """What the client sends meanwhile is read afterwards."""

    async def test(parts: Connected) -> None:
        transport, protocol, client = parts
        transport.pause_reading()
        client.send(b"later")
        for _ in range(5):
            await asyncio.sleep(0)
        assert protocol.received == b""
        transport.resume_reading()
        await wait_until_async(lambda: protocol.received == b"later")

    run(test)


def test_a_protocol_that_fails(run: RunTest, caplog: pytest.LogCaptureFixture) -> None:
    """Its connection is closed, and the failure is logged."""

    async def test(parts: Connected) -> None:
        _, protocol, client = parts
        client.send(b"fail")
        assert await read_until_end(client) == b""
        await wait_until_async(lambda: protocol.calls == ["closed"])

    with caplog.at_level(logging.ERROR):
        run(test)
    assert "cannot read this" in caplog.text


def test_writing_to_a_client_that_has_gone(run: RunTest) -> None:
    """The protocol is told the error once; later writes are ignored."""

    async def test(parts: Connected) -> None:
        transport, protocol, client = parts
        transport.pause_reading()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        while not transport.is_closing():
            transport.write(b"x")
        transport.write(b"y")
        transport.close()
        await wait_until_async(lambda: len(protocol.calls) == 1)
        assert protocol.calls[0] in {"ConnectionResetError", "BrokenPipeError"}

    run(test)


def test_a_connection_that_cannot_be_watched_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    """The system limits what an epoll may watch; the connection is not left open for ever (IB6)."""

    class FullEvents(SocketEvents):
        def watch(self, *_: object) -> None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def run() -> None:
        async with connected(FullEvents) as (_, protocol, client):
            await wait_until_async(lambda: protocol.calls == ["OSError"])
            client.settimeout(None)
            assert client.recv(1) == b""

    asyncio.run(run())
    assert "cannot watch a connection: No space left on device; closing it" in caplog.text
