"""Clients: raw sockets on uvloop, one object per connection, in a separate process."""

import asyncio
import os
import re
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, repeat
from typing import cast

from fairwarning.metadata.callers import loopback_address
from tests.bench.measure import Sample
from tests.bench.processes import cpu_seconds, cpu_since, most_descriptors, resident_bytes

DROPPED = "the server closed the connection"

_LOOK_SECONDS = 0.25
_IDLE_SHARE = 0.05  # of a core
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *([0-9]+)\r\n")
TAG = re.compile(rb'(?i)\r\netag: *("[0-9]+")\r\n')


def addresses(numbers: Iterable[int]) -> list[str]:
    """The addresses of the machines with these numbers, the first of which is 1."""
    return [address for address in map(loopback_address, numbers) if address]


def poll(address: str, query: str = "", headers: str = "") -> bytes:
    """The bytes of a poll, as curl sends them."""
    return (
        f"GET /metadata/scheduledevents?api-version=2020-07-01{query} HTTP/1.1\r\n"
        f"Host: {address}\r\nMetadata: true\r\n{headers}\r\n"
    ).encode("ascii")


CLOSE = "Connection: close\r\n"


def size_of(data: bytes) -> int:
    """The length of a response that begins like this; huge while its headers are incomplete."""
    head = data.find(b"\r\n\r\n") + 4
    if head < 4:
        return sys.maxsize
    length = _LENGTH.search(data, 0, head)
    return head + (int(length[1]) if length else 0)


class Client(asyncio.Protocol):
    """A connection with one request at a time."""

    def __init__(self) -> None:
        self._buffer = self.last = b""
        self._waiting: asyncio.Future[bytes] | None = None
        self.answered = 0.0  # the time of the last response

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if data != self.last:
            data = self._buffer + data
            if len(data) < size_of(data):
                self._buffer = data
                return
            self._buffer = b""
            self.last = data
        self.answered = time.perf_counter()
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(error or ConnectionResetError(DROPPED))

    async def ask(self, request: bytes, status: int = 200) -> bytes:
        """Send a request; return the response, which must have this status."""
        self._waiting = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        answer = await self._waiting
        if not answer.startswith(b"HTTP/1.1 %d " % status):
            raise ValueError(f"expected {status}, got {answer[:500]!r}")
        return answer


async def connect(address: str, port: int) -> Client:
    """Connect to a machine's address."""
    _, client = await asyncio.get_running_loop().create_connection(Client, address, port)
    return client


async def known(asking: Sequence[str], port: int) -> list[Client]:
    """Connect to each address, and poll once so that the server knows the caller."""
    clients = []
    for address in asking:
        clients.append(await connect(address, port))
        await clients[-1].ask(poll(address))
    return clients


async def flood(
    asking: Sequence[str], port: int, seconds: float, pids: Sequence[int], kind: str = ""
) -> dict[str, float]:
    """Poll without pauses, on one connection per address; return the server's CPU.

    Kinds: "" keeps connections, "close" opens one each time, "same", "changing" and "header" add an
    unknown parameter or header.
    """
    numbers = count(1)

    async def poll_on(address: str, client: Client) -> int:
        requests, done = _requests(kind, address, numbers), 0
        while not done or time.perf_counter() - began < seconds:
            if kind == "close":
                client.transport.close()
                client = await connect(address, port)
            await client.ask(next(requests))
            done += 1
        client.transport.close()
        return done

    clients = await known(asking, port)
    cpu, began = cpu_seconds(pids), time.perf_counter()
    done = await asyncio.gather(*map(poll_on, asking, clients))
    cpu, wall = cpu_since(pids, cpu), time.perf_counter() - began
    return Sample(sum(done), cpu, cpu, wall).plain()


def _requests(kind: str, address: str, numbers: Iterator[int]) -> Iterator[bytes]:
    if kind == "changing":
        return (poll(address, f"&unknown={number:09}") for number in numbers)
    if kind == "header":
        return (poll(address, headers=f"X-Unknown: {number:09}\r\n") for number in numbers)
    if kind == "same":
        return repeat(poll(address, "&unknown=000000000"))
    return repeat(poll(address, headers=CLOSE if kind == "close" else ""))


async def hold(asking: Sequence[str], port: int, held: int, pid: int) -> dict[str, float]:
    """Hold this many requests in total until the server changes the document."""
    most_descriptors()
    tag = None
    for client in await known(asking, port):  # only a client that has read a document is held
        tag = TAG.search(client.last)
        client.transport.close()
    assert tag
    headers = f"If-None-Match: {tag[1].decode()}\r\n"
    tasks: list[asyncio.Task[float]] = []
    clients: list[Client] = []

    async def waiting(address: str, client: Client) -> float:
        await client.ask(poll(address, "&wait=60", headers))
        return client.answered

    before = resident_bytes([pid])
    for at in range(held):
        address = asking[at % len(asking)]
        client = await connect(address, port)
        clients.append(client)
        tasks.append(asyncio.create_task(waiting(address, client)))
    await idle(pid)
    memory, cpu, changed_at = (
        resident_bytes([pid]) - before,
        cpu_seconds([pid]),
        time.perf_counter(),
    )
    os.kill(pid, signal.SIGUSR1)
    answered = sorted(await asyncio.gather(*tasks))
    cpu = cpu_seconds([pid]) - cpu
    for client in clients:
        client.transport.close()
    return {
        "memory": memory,
        "cpu": cpu,
        "changed_at": changed_at,
        "first": answered[0],
        "middle": answered[len(answered) // 2],
        "last": answered[-1],
    }


async def idle(pid: int) -> None:
    """Return once the server is idle."""
    used = -1.0
    while (now := cpu_seconds([pid])) - used > _IDLE_SHARE * _LOOK_SECONDS:
        used = now
        await asyncio.sleep(_LOOK_SECONDS)
