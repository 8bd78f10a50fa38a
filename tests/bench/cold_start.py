"""A cold start: every machine of a fleet polls for the first time within a minute."""

import time
from collections.abc import Iterator, Sequence
from functools import partial
from select import EPOLLIN, EPOLLOUT, epoll
from socket import socket

from tests.bench import contenders, load
from tests.bench.clients import CLOSE, addresses, poll
from tests.bench.contenders import NGINX, OURS, Recipe, installed, running
from tests.bench.context import BenchmarkContext, medians
from tests.bench.figures import Result, Target
from tests.bench.measure import MILLI, percentile
from tests.bench.processes import cpu_seconds, cpu_since, most_descriptors
from tests.bench.storage import Files

_MINUTE = 60
_FULL_RATE = 1_000_000 / _MINUTE  # a second
_WORST_MS_AT_MOST = 2000.0
_REFUSED = "refused"
_WORST = "worst ms"
_FIRST = addresses([1])
_BODY = b'{"DocumentIncarnation":1,"Events":[]}'
_REQUEST = poll("169.254.169.254", headers=CLOSE)
_OK = b"HTTP/1.1 200 "
_GIVE_UP_SECONDS = 120.0  # without any response
_RECEIVE_BYTES = 65536
_OTHER_DESCRIPTORS = 200
_STARTS = 64  # before responses are read


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    machines = context.effort.vast
    runs = {OURS: partial(_ours, context, machines)}
    if context.effort.apart and (program := installed("nginx")):
        recipe = contenders.nginx(context, program, _FIRST, _BODY)
        runs[NGINX] = partial(_arrive, context, recipe, (1, machines), together=True)
    samples = context.in_turn(runs)
    rows = {name: medians(taken) for name, taken in samples.items()}
    refused = max(sample[_REFUSED] for sample in samples[OURS])
    worst = rows[OURS][_WORST]
    for row in rows.values():
        del row[_REFUSED]
    return Result(
        name="cold-start",
        title=f"A cold start: {_FULL_RATE:,.0f} first polls a second",
        about=f"`fairwarning up` on SQLite with {machines:,} standalone machines, none of which "
        "has polled before. All poll once, each on a new connection, at the rate at which a "
        "million machines poll within a minute, whether or not the server keeps up. The first "
        "poll of a machine enables its scope, which is durable before the response. The wait "
        "begins when the machine is due. nginx gets the same requests for one response.",
        rows=rows,
        targets=(
            Target(f"{OURS}: {_WORST}", worst, _WORST_MS_AT_MOST, at_least=False),
            Target(f"{OURS}: {_REFUSED}", refused, 0, at_least=False),
        ),
    )


def _ours(context: BenchmarkContext, machines: int) -> dict[str, float]:
    words = Files(context).fresh(machines, of_scope=1)
    folder = context.folder / "up-cold"
    recipe = contenders.with_stored_fleet(folder, OURS, _FIRST, words)
    numbers = 2, machines + 1  # the first polls when the server starts
    return _arrive(context, recipe, numbers, together=False)


def _arrive(
    context: BenchmarkContext, recipe: Recipe, numbers: tuple[int, int], *, together: bool
) -> dict[str, float]:
    with running(recipe) as server:
        sample: dict[str, float] = load.probe(
            context,
            arrive,
            server,
            numbers=numbers,
            together=together,
            rate=_FULL_RATE,
            pids=server.process.pids(),
        )
    return sample


# --- Clients, in a separate process ---------------------------------------------------------------

# They arrive at a steady rate, whether or not the server keeps up. Each has an address of its own
# and polls once, on a new connection, as a machine that has just started does. Its wait begins when
# it is due, also if this process is late.


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
