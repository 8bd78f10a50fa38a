import asyncio
import socket
import time
import tracemalloc
from contextlib import ExitStack, suppress

import pytest

from fairwarning.core.limits import HEADER_SECONDS
from tests.fixtures.endpoint import EndpointHarness
from tests.hostile.preparation import allow_files, client_of, prepare
from tests.hostile.wire import GOOD, POLL, TARGET, Client, head

SCOPES, MACHINES = 5, 100  # that poll honestly
SLOW, SLOW_MACHINES = 200, 20
ROUNDS = 6  # of a second each: longer than slow clients are borne with

HALF_HEAD = POLL[:-10]
HALF_BODY = head("POST", TARGET, *GOOD, "Content-Length: 20") + b'{"Start'

Address = tuple[str, int]
RESET = (1).to_bytes(4, "little") + bytes(4)  # SO_LINGER: on, and no time


class Dawdler:
    """A client that says a little, then one byte at a time or nothing, and reads nothing at all."""

    def __init__(self, address: Address, said: bytes, drops: bytes = b"") -> None:
        self._address = address
        self._said = said
        self._drops = drops
        self._come()

    def _come(self) -> None:
        self._dropped = 0
        self.sock = socket.create_connection(self._address)
        self.sock.sendall(self._said)
        self.sock.setblocking(False)

    def step(self) -> None:
        """Go on; if it was shut out, come again."""
        with suppress(BlockingIOError, ConnectionError):
            if self._drops:
                self.sock.send(self._drops[self._dropped : self._dropped + 1])
                self._dropped += 1
            if self.sock.recv(1, socket.MSG_PEEK):
                return  # there is an answer, which it does not take
            self.sock.close()
            self._come()


WAYS: tuple[tuple[bytes, bytes], ...] = (
    (b"", b""),
    (HALF_HEAD, b""),
    (HALF_BODY, b""),
    (b"", POLL),
    (POLL * 200, b""),
)


async def dawdle(crowd: list[Dawdler]) -> None:
    """All of them, ten times a second."""
    while True:
        for one in crowd:
            one.step()
        await asyncio.sleep(0.1)


async def poll_honestly(address: Address, late: float, took: list[float]) -> None:
    """Once a second on one connection; every answer must be the document."""
    await asyncio.sleep(late)
    reader, writer = await asyncio.open_connection(*address)
    try:
        for _ in range(ROUNDS):
            began = time.perf_counter()
            writer.write(POLL)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 200 "), answer
            size = int(answer.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
            await reader.readexactly(size)
            took.append(time.perf_counter() - began)
            await asyncio.sleep(1.0)
    finally:
        writer.transport.abort()


async def both(honest: list[Address], crowd: list[Dawdler]) -> list[float]:
    """Honest clients beside slow ones; how long each honest answer took."""
    took: list[float] = []
    slow = asyncio.ensure_future(dawdle(crowd))
    try:
        async with asyncio.TaskGroup() as pollers:
            for n, address in enumerate(honest):
                pollers.create_task(poll_honestly(address, n / len(honest), took))
        assert not slow.done(), slow
    finally:
        slow.cancel()
    return took


@pytest.mark.spec("M17")
def test_slow_clients_slow_nobody_else() -> None:
    """Beside 200 connections that dawdle, 500 machines are answered, and wait for none of them.

    An answer that waited for a slow client would take until that client's deadline. How long it
    takes on a quiet machine is measured by `make bench`.
    """
    allow_files(2 * (SLOW + SCOPES * MACHINES) + 200)  # both ends of each are ours
    with EndpointHarness() as endpoint, ExitStack() as sockets:
        for n in range(SCOPES):
            endpoint.make(f"av{n}", MACHINES)
        endpoint.make("slow", SLOW_MACHINES)
        honest = [endpoint.address(f"av{n}_{m}") for n in range(SCOPES) for m in range(MACHINES)]
        crowd = []
        for n in range(SLOW):
            crowd.append(
                Dawdler(endpoint.address(f"slow_{n % SLOW_MACHINES}"), *WAYS[n % len(WAYS)])
            )
            sockets.callback(lambda one: one.sock.close(), crowd[-1])
        took = sorted(asyncio.run(both(honest, crowd)))
        assert len(took) == len(honest) * ROUNDS
        assert took[len(took) * 99 // 100] < HEADER_SECONDS
        assert not endpoint.server.counts.refused["connections"]
        assert endpoint.server.counts.refused["deadline"]  # so the slow ones were


# --- What each of them costs ---


def half_open(endpoint: EndpointHarness, clients: ExitStack, count: int) -> list[Client]:
    """So many connections, each with half a large request read in."""
    head_of_15_kib = get_long()
    opened = []
    for n in range(count):
        client = clients.enter_context(client_of(endpoint, f"slow_{n % SLOW_MACHINES}"))
        client.send(head_of_15_kib)
        opened.append(client)
    endpoint.wait_until(
        lambda: sum(one._reader is not None for one in endpoint.connections) == count
    )
    return opened


def get_long() -> bytes:
    """Nearly all that a head may be, but for its end."""
    return POLL.removesuffix(b"\r\n") + b"X-Long: " + b"a" * 15_000


@pytest.mark.spec("M17")
def test_half_a_request_costs_little() -> None:
    """200 connections with as much of a head as there may be cost less than 64 KiB each."""
    with EndpointHarness() as endpoint, ExitStack() as clients:
        endpoint.make("slow", SLOW_MACHINES)
        for n in range(SLOW_MACHINES):
            assert endpoint.get(f"slow_{n}").status == 200
        tracemalloc.start()
        try:
            before, _ = tracemalloc.get_traced_memory()
            half_open(endpoint, clients, SLOW)
            after, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert (after - before) / SLOW < 64 * 1024


@pytest.mark.spec("M17")
def test_a_connection_that_is_gone_leaves_nothing() -> None:
    """However a connection ends, by a close or a reset, in whatever state, its place is free."""
    with EndpointHarness() as endpoint:
        prepare(endpoint)
        for said in (b"", HALF_HEAD, HALF_BODY, POLL, POLL * 50):
            for linger in (b"", RESET):
                client = client_of(endpoint)
                client.send(said)
                if linger:
                    client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                client.sock.close()
        endpoint.wait_until(lambda: not endpoint.connections)
        (caller, *_) = (one for one in endpoint.server.callers.known.values() if one.name == "av_0")
        assert caller.connections == 0
