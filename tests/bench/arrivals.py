"""Clients that arrive at a steady rate, whether or not the server keeps up; in a separate process.

Each has an address of its own and polls once, on a new connection, as a machine that has just
started does. Its wait begins when it is due, also if this process is late.
"""

import time
from collections.abc import Iterator, Sequence
from select import EPOLLIN, EPOLLOUT, epoll
from socket import socket

from tests.bench.clients import CLOSE, poll
from tests.bench.many_machines import addresses
from tests.bench.measure import MILLI, percentile
from tests.bench.processes import cpu_seconds, cpu_since, most_descriptors

_REQUEST = poll("169.254.169.254", headers=CLOSE)
_OK = b"HTTP/1.1 200 "
_GIVE_UP_SECONDS = 120.0  # without any response
_RECEIVE_BYTES = 65536
_OTHER_DESCRIPTORS = 200
_STARTS = 64  # before responses are read


class Arrivals:
    """Clients that are due, waiting and done."""

    def __init__(self, asking: Sequence[str], port: int, rate: float, most_open: int) -> None:
        self._left: Iterator[tuple[int, str]] = enumerate(asking)
        self._next = next(self._left, None)
        self._port = port
        self._rate = rate
        self._most_open = most_open
        self._epoll = epoll()
        self._open: dict[int, tuple[socket, float]] = {}  # and when it was due
        self.waits: list[float] = []
        self.refused = 0
        self._began = self._answered_at = time.perf_counter()

    def run(self) -> None:
        """Return when every client has its response, or none arrives any more."""
        while self._next or self._open:
            self._start_due()
            for descriptor, events in self._epoll.poll(0.001):
                self._proceed(descriptor, events)
            if time.perf_counter() - self._answered_at > _GIVE_UP_SECONDS:
                break
        self.refused += len(self._open)
        for client, _ in self._open.values():
            client.close()
        self._epoll.close()

    def _start_due(self) -> None:
        for _ in range(_STARTS):
            if self._next is None or len(self._open) >= self._most_open:
                return
            number, address = self._next
            due = self._began + number / self._rate
            if due > time.perf_counter():
                return
            self._next = next(self._left, None)
            client = socket()
            client.settimeout(0)
            client.connect_ex((address, self._port))
            self._open[client.fileno()] = client, due
            self._epoll.register(client, EPOLLIN if _send(client) else EPOLLOUT)

    def _proceed(self, descriptor: int, events: int) -> None:
        client, due = self._open[descriptor]
        if events == EPOLLOUT and _send(client):
            self._epoll.modify(client, EPOLLIN)
            return
        try:
            response = client.recv(_RECEIVE_BYTES)
        except OSError:
            response = b""
        client.close()
        del self._open[descriptor]
        self._answered_at = time.perf_counter()
        self.refused += not response.startswith(_OK)
        self.waits.append(self._answered_at - due)


def _send(client: socket) -> bool:
    """Send the request if the connection is established."""
    try:
        return client.send(_REQUEST) == len(_REQUEST)
    except OSError:
        return False


async def arrive(
    numbers: Sequence[int], port: int, rate: float, pids: Sequence[int], *, together: bool
) -> dict[str, float]:
    """Machines arrive at this rate; return how long they waited, and the server's CPU for each.

    `together` means that all poll at the address of the first.
    """
    most_open = most_descriptors() - _OTHER_DESCRIPTORS
    asking = addresses(range(*numbers))
    if together:
        asking = asking[:1] * len(asking)
    cpu = cpu_seconds(pids)
    began = time.perf_counter()
    arrivals = Arrivals(asking, port, rate, most_open)
    arrivals.run()
    wall = time.perf_counter() - began
    return {
        "CPU µs": cpu_since(pids, cpu) / len(asking) * 1e6,
        "a second": len(arrivals.waits) / wall,
        "p50 ms": percentile(arrivals.waits, 0.5) * MILLI,
        "worst ms": max(arrivals.waits) * MILLI,
        "refused": arrivals.refused,
    }
