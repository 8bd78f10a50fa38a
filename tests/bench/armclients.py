"""Clients of the control plane: persistent TLS connections, in a separate process."""

import asyncio
import re
import ssl
import time
from collections.abc import Sequence
from itertools import count as endless

from tests.bench.clients import Client
from tests.bench.measure import Sample
from tests.bench.processes import cpu_seconds, cpu_since

HOST = "127.0.0.1"
NUMBER = "{number}"  # in a path: replaced by a new number each time

_NEXT = re.compile(rb'"nextLink":"https://[^/"]+(/[^"]+)"')


class _Client(Client):
    """A connection whose end takes a while, as with TLS."""

    def __init__(self) -> None:
        super().__init__()
        self._lost = asyncio.Event()

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(error)
        self._lost.set()

    async def close(self) -> None:
        """Close the connection."""
        self.transport.close()
        await self._lost.wait()


def request_bytes(method: str, path: str, headers: str) -> bytes:
    """The bytes of a request."""
    length = "Content-Length: 0\r\n" if method == "POST" else ""
    return f"{method} {path} HTTP/1.1\r\n{headers}{length}\r\n".encode("ascii")


async def ask_over_tls(
    port: int,
    ca: str,
    path: str,
    headers: str,
    pids: Sequence[int],
    *,
    connections: int,
    method: str = "GET",
    first: int = 0,
    count: int = 0,
    seconds: float = 0.0,
) -> dict[str, float]:
    """Send `count` requests, or as many as fit in `seconds`; return the server's CPU.

    The connections are there before the measurement begins.
    """
    status = 202 if method == "POST" else 200
    numbers = iter(range(first, first + count)) if count else endless(first)

    async def send_all(client: _Client) -> int:
        done = 0
        for number in numbers:
            await client.ask(
                request_bytes(method, path.replace(NUMBER, str(number)), headers), status
            )
            done += 1
            if not count and time.perf_counter() - began >= seconds:
                break
        return done

    clients = await _connected(port, ca, connections)
    cpu, began = cpu_seconds(pids), time.perf_counter()
    done = await asyncio.gather(*map(send_all, clients))
    cpu, wall = cpu_since(pids, cpu), time.perf_counter() - began
    for client in clients:
        await client.close()
    return Sample(sum(done), cpu, cpu, wall).plain()


async def list_over_tls(
    port: int, ca: str, paths: Sequence[str], headers: str, pids: Sequence[int]
) -> dict[str, float]:
    """Read listings page by page on one connection; return the server's CPU."""
    (client,) = await _connected(port, ca, 1)
    left, pages = list(paths), 0
    cpu, began = cpu_seconds(pids), time.perf_counter()
    while left:
        answer = await client.ask(request_bytes("GET", left.pop(), headers))
        left += [link.decode("ascii") for link in _NEXT.findall(answer)]
        pages += 1
    cpu, wall = cpu_since(pids, cpu), time.perf_counter() - began
    await client.close()
    return Sample(pages, cpu, cpu, wall).plain()


async def _connected(port: int, ca: str, connections: int) -> list[_Client]:
    tls = ssl.create_default_context(cafile=ca)
    loop = asyncio.get_running_loop()
    connected = [
        await loop.create_connection(_Client, HOST, port, ssl=tls) for _ in range(connections)
    ]
    return [client for _, client in connected]
