import asyncio
import socket
import time
import tracemalloc
from contextlib import ExitStack, suppress

import pytest

from fairwarning.core.limits import HEADER_SECONDS
from tests.fixtures.endpoint import EndpointHarness
from tests.fixtures.waiting import on_this_machine
from tests.hostile.preparation import allow_files, connect, prepare
from tests.hostile.wire import GOOD, POLL, RESET, TARGET, head

pytestmark = pytest.mark.spec("M17")

SCOPES, MACHINES = 5, 100  # that poll normally
SLOW, SLOW_MACHINES = 200, 20
ROUNDS = 6  # of a second each: longer than the deadlines of slow clients

HALF_HEAD = POLL[:-10]
HALF_BODY = head("POST", TARGET, *GOOD, "Content-Length: 20") + b'{"Start'

Address = tuple[str, int]


class SlowClient:
    """A client that sends a little, then single bytes or nothing, and never reads."""

    def __init__(self, address: Address, first: bytes, drops: bytes = b"") -> None:
        self._address = address
        self._first = first
        self._drops = drops
        self._connect()

    def _connect(self) -> None:
        self._dropped = 0
        self.sock = socket.create_connection(self._address)
        self.sock.sendall(self._first)
        self.sock.setblocking(False)

    def step(self) -> None:
        """Continue; reconnect if the server has disconnected it."""
        with suppress(BlockingIOError, ConnectionError):
            if self._drops:
                self.sock.send(self._drops[self._dropped : self._dropped + 1])
                self._dropped += 1
            if self.sock.recv(1, socket.MSG_PEEK):
                return  # a response has arrived, which it does not read
            self.sock.close()
            self._connect()


WAYS: tuple[tuple[bytes, bytes], ...] = (
    (b"", b""),
    (HALF_HEAD, b""),
    (HALF_BODY, b""),
    (b"", POLL),
    (POLL * 200, b""),
)


async def run_slow_clients(slow_clients: list[SlowClient]) -> None:
    """Step all slow clients, ten times a second."""
    while True:
        for client in slow_clients:
            client.step()
        await asyncio.sleep(0.1)


async def poll_normally(address: Address, late: float, took: list[float]) -> None:
    """Poll once a second on one connection; every response must be the document."""
    await asyncio.sleep(late)
    reader, writer = await asyncio.open_connection(*address)
    try:
        for _ in range(ROUNDS):
            began = time.perf_counter()
            writer.write(POLL)
            head_bytes = await reader.readuntil(b"\r\n\r\n")
            assert head_bytes.startswith(b"HTTP/1.1 200 "), head_bytes
            size = int(head_bytes.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            await reader.readexactly(size)
            took.append(time.perf_counter() - began)
            await asyncio.sleep(1.0)
    finally:
        writer.transport.abort()


async def run_both(normal: list[Address], slow_clients: list[SlowClient]) -> list[float]:
    """Run normal and slow clients together; return the time of each normal response."""
    took: list[float] = []
    slow = asyncio.ensure_future(run_slow_clients(slow_clients))
    try:
        async with asyncio.TaskGroup() as pollers:
            for n, address in enumerate(normal):
                pollers.create_task(poll_normally(address, n / len(normal), took))
        assert not slow.done(), slow
    finally:
        slow.cancel()
    return took


def test_slow_clients_do_not_delay_others() -> None:
    """Besides 200 slow connections, 500 machines are answered without waiting for them.

    A response that waited for a slow client would take until that client's deadline. `make bench`
    measures response times on an idle machine.
    """
    allow_files(2 * (SLOW + SCOPES * MACHINES) + 200)  # both ends of each connection are ours
    with EndpointHarness() as endpoint, ExitStack() as sockets:
        for n in range(SCOPES):
            endpoint.make(f"av{n}", MACHINES)
        endpoint.make("slow", SLOW_MACHINES)
        normal = [endpoint.address(f"av{n}_{m}") for n in range(SCOPES) for m in range(MACHINES)]
        slow_clients = []
        for n in range(SLOW):
            slow_clients.append(
                SlowClient(endpoint.address(f"slow_{n % SLOW_MACHINES}"), *WAYS[n % len(WAYS)])
            )
            sockets.callback(lambda client: client.sock.close(), slow_clients[-1])
        took = sorted(asyncio.run(run_both(normal, slow_clients)))
        assert len(took) == len(normal) * ROUNDS
        assert took[len(took) * 99 // 100] < on_this_machine(HEADER_SECONDS)
        assert not endpoint.server.counts.refused["connections"]
        assert endpoint.server.counts.refused["deadline"]  # the slow clients were refused


# --- Memory per connection ---


LONG_HEAD = POLL.removesuffix(b"\r\n") + b"X-Long: " + b"a" * 15_000
"""A head of nearly the maximum size, without its end."""


def open_partial(endpoint: EndpointHarness, clients: ExitStack, count: int) -> None:
    """Open this many connections, each with half a large request."""
    for n in range(count):
        clients.enter_context(connect(endpoint, f"slow_{n % SLOW_MACHINES}")).send(LONG_HEAD)
    endpoint.wait_until(
        lambda: sum(connection._reader is not None for connection in endpoint.connections) == count
    )


def test_memory_of_partial_requests() -> None:
    """200 connections with heads of maximum size cost less than 64 KiB each."""
    with EndpointHarness() as endpoint, ExitStack() as clients:
        endpoint.make("slow", SLOW_MACHINES)
        for n in range(SLOW_MACHINES):
            assert endpoint.get(f"slow_{n}").status == 200
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            open_partial(endpoint, clients, SLOW)
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (after - before) / SLOW < 64 * 1024


def test_a_closed_connection_releases_everything(endpoint: EndpointHarness) -> None:
    """After a close or a reset in any state, its slot is free."""
    prepare(endpoint)
    for sent in (b"", HALF_HEAD, HALF_BODY, POLL, POLL * 50):
        for linger in (b"", RESET):
            client = connect(endpoint)
            client.send(sent)
            if linger:
                client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            client.sock.close()
    endpoint.wait_until(lambda: not endpoint.connections)
    (caller, *_) = (c for c in endpoint.server.callers.known.values() if c.name == "av_0")
    assert caller.connections == 0
