"""Polls while a crowd of anonymous clients uses the other ports (IB7).

python -m tests.bench.crowd PORT CONNECTIONS PATH

is the crowd, until it is ended; without a path it makes TLS handshakes.
"""

import asyncio
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import count
from urllib.parse import urlsplit

from tests.bench.context import ROOT, BenchmarkContext
from tests.bench.figures import Result, Target, described
from tests.bench.processes import LOAD_CORE, SERVER_CORE, pinned
from tests.fixtures.service import ServiceProcess
from tests.hostile.wire import POLL, Client

_CROWD = 1000
_ALONE = "alone"
_CROWDS = {
    "1,000 ask for /login": ("console", "/login"),
    "1,000 ask with 60 KB of parameters": ("console", f"/login?{'key=&' * 12_000}"),
    "1,000 ask for an unknown path": ("console", "/nothing"),
    "1,000 ask for /metrics": ("console", "/metrics"),
    "1,000 make TLS handshakes": ("arm", ""),
}
_AT_MOST = 3.0  # times p99 alone
_POLLS_AT_LEAST = 50
_PAUSE_SECONDS = 0.002  # between two polls
_UNDER_WAY = "under way\n"
_LOWER_PRIORITY = 10


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    crowd = _CROWD if context.effort.apart else 20
    with (
        pinned(SERVER_CORE),
        ServiceProcess(
            context.folder / "crowd", "--memory", fleet='[[machine]]\nname = "vm"\n', fork=False
        ) as service,
        pinned(LOAD_CORE),
    ):
        runs: dict[str, Callable[[], dict[str, float]]] = {
            name: partial(_poll_beside, context, service, crowd, port, path)
            for name, (port, path) in {_ALONE: ("", ""), **_CROWDS}.items()
        }
        rows = context.medians(runs)
    for row in rows.values():
        row["p99 ÷ alone"] = row["p99 µs"] / rows[_ALONE]["p99 µs"]
    worst = max(row["p99 ÷ alone"] for row in rows.values())
    return Result(
        *described("crowd", pause=_PAUSE_SECONDS * 1000, crowd=crowd),
        rows=rows,
        targets=(Target("p99 of a poll: worst crowd ÷ alone", worst, _AT_MOST, at_least=False),),
    )


def _poll_beside(
    context: BenchmarkContext, service: ServiceProcess, crowd: int, port: str, path: str
) -> dict[str, float]:
    host, _, machine_port = service.machine_url("vm").removeprefix("http://").partition(":")
    took: list[float] = []
    with (
        _crowd(service, crowd, port, path),
        Client(socket.create_connection((host, int(machine_port)))) as client,
    ):
        began = time.perf_counter()
        while len(took) < _POLLS_AT_LEAST or time.perf_counter() < began + context.effort.seconds:
            sent = time.perf_counter()
            assert client.request(POLL).status == 200
            took.append(time.perf_counter() - sent)
            time.sleep(_PAUSE_SECONDS)
    took.sort()
    return {"p50 µs": took[len(took) // 2] * 1e6, "p99 µs": took[len(took) * 99 // 100] * 1e6}


@contextmanager
def _crowd(service: ServiceProcess, crowd: int, port: str, path: str) -> Iterator[None]:
    if not port:
        yield
        return
    number = urlsplit(str(service.ready[port])).port
    program = [sys.executable, "-m", "tests.bench.crowd", str(number), str(crowd), path]
    with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True) as clients:
        try:
            assert clients.stdout is not None
            assert clients.stdout.readline() == _UNDER_WAY
            yield
            assert clients.poll() is None
        finally:
            clients.kill()


async def _ask(port: int, number: int, path: str, answers: Iterator[int]) -> None:
    """Send requests one after another, and connect again when the port has closed."""
    address = (f"127.0.1.{1 + number % 200}", 0)
    context = None if path else ssl._create_unverified_context()
    request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode()
    while True:
        with suppress(OSError, asyncio.IncompleteReadError):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, local_addr=address, ssl=context
            )
            try:
                while path:
                    writer.write(request)
                    head = (await reader.readuntil(b"\r\n\r\n")).lower()
                    await reader.readexactly(int(head.partition(b"content-length:")[2].split()[0]))
                    _count(answers)
                _count(answers)
            finally:
                writer.close()
        await asyncio.sleep(_PAUSE_SECONDS)


def _count(answers: Iterator[int]) -> None:
    """Print a line once there are as many answers as clients."""
    if next(answers) == 0:
        print(_UNDER_WAY, end="", flush=True)


async def _main(port: str, crowd: str, path: str) -> None:
    os.nice(_LOWER_PRIORITY)  # the client that polls goes first
    answers = count(-int(crowd))
    await asyncio.gather(*(_ask(int(port), number, path, answers) for number in range(int(crowd))))


if __name__ == "__main__":
    asyncio.run(_main(*sys.argv[1:]))
