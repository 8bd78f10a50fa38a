"""The cost of reading a machine from the control plane, compared with a minimal server."""

import asyncio
import math
import shutil
import ssl
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from fairwarning.server.ready import read_ready
from tests.bench import contenders, load
from tests.bench.clients import Client, addresses
from tests.bench.contenders import OURS, running
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result, Target, described
from tests.bench.measure import Sample
from tests.bench.processes import Process, cpu_seconds, cpu_since
from tests.fixtures.http import fetch

_HOST = "127.0.0.1"
_BARE = "Starlette on uvicorn"
_CONNECTIONS = 16
_AT_MOST = 3.0
_FLEET = '[[machine]]\nname = "vm"\n'
_PATH = (
    "/subscriptions/{}/resourceGroups/fairwarning/providers/Microsoft.Compute/virtualMachines/vm"
    "?api-version=2024-11-01"
)
_MIB = 1 << 20


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    with _ours(context) as ours:
        document = ours.get()
        with _bare(context, ours, document) as bare:
            servers = (ours, bare)
            before = {server.name: server.process.resident() / _MIB for server in servers}
            taken = context.samples(
                {server.name: partial(server.flood, context) for server in servers}
            )
            after = {server.name: server.process.resident() / _MIB for server in servers}
    generator = "wrk, one thread" if load.has_wrk(context) else "our own clients, without wrk"
    ratio = taken[OURS].cpu / taken[_BARE].cpu
    return Result(
        *described("arm-reads", size=len(document), connections=_CONNECTIONS, peer=_BARE),
        rows={
            name: {
                "CPU µs": sample.cpu_us,
                f"÷ {_BARE}": sample.cpu / taken[_BARE].cpu,
                "a second": sample.rate,
                "resident MiB before": before[name],
                "resident MiB after": after[name],
            }
            for name, sample in taken.items()
        },
        targets=(Target(f"CPU of a read: {OURS} ÷ {_BARE}", ratio, _AT_MOST, at_least=False),),
        notes=(f"Load: {generator}, {_CONNECTIONS} connections.",),
    )


@dataclass(frozen=True, slots=True)
class Server:
    """A running control plane."""

    name: str
    process: Process
    port: int
    ca: str
    path: str
    token: str

    def get(self) -> bytes:
        """GET the machine on a new connection."""
        url = f"https://{_HOST}:{self.port}{self.path}"
        answer = fetch(url, headers={"Authorization": f"Bearer {self.token}"}, ca=self.ca)
        assert answer.status == 200, answer.body
        return answer.body

    def flood(self, context: BenchmarkContext) -> Sample:
        """GET the machine as often as possible."""
        seconds, pids = context.effort.seconds, self.process.pids()
        authorization = f"Authorization: Bearer {self.token}"
        if load.has_wrk(context):
            words = [f"-c{_CONNECTIONS}", f"-d{math.ceil(seconds)}s", "-H", authorization]
            return load.wrk(self.name, pids, [*words, f"https://{_HOST}:{self.port}{self.path}"])
        request = (
            f"GET {self.path} HTTP/1.1\r\nHost: {_HOST}:{self.port}\r\n{authorization}\r\n\r\n"
        )
        how = {"port": self.port, "ca": self.ca, "request": request}
        return Sample(**context.clients(read_over_tls, **how, pids=pids, seconds=seconds))


@contextmanager
def _ours(context: BenchmarkContext) -> Iterator[Server]:
    """Run `fairwarning up` with an SQLite file."""
    folder = context.folder / "arm"
    with running(contenders.up(folder, addresses([1]), _FLEET)) as contender:
        ready = read_ready(folder / "data")
        port = urlsplit(ready["arm"]).port
        assert port
        path = _PATH.format(ready["subscription"])
        yield Server(OURS, contender.process, port, ready["ca"], path, ready["token"])


@contextmanager
def _bare(context: BenchmarkContext, beside: Server, document: bytes) -> Iterator[Server]:
    """Run a peer with our server's certificate."""
    folder = context.folder / "bare"
    folder.mkdir()
    shutil.copy(Path(beside.ca).with_name("server.pem"), folder)
    (folder / "document").write_bytes(document)
    command = [sys.executable, "-m", "tests.bench.bare", str(folder)]
    with Process(command, folder / "log") as process:
        yield replace(beside, name=_BARE, process=process, port=int(process.line()))


# --- Clients, in a separate process ---------------------------------------------------------------


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


async def read_over_tls(
    port: int, ca: str, request: str, pids: Sequence[int], seconds: float
) -> dict[str, float]:
    """Send a request as often as possible on persistent connections; return the server's CPU."""
    tls = ssl.create_default_context(cafile=ca)
    loop = asyncio.get_running_loop()

    async def read_on(client: _Client) -> int:
        done = 0
        while not done or time.perf_counter() - began < seconds:
            await client.ask(request.encode("ascii"))
            done += 1
        return done

    clients = [
        (await loop.create_connection(_Client, _HOST, port, ssl=tls))[1]
        for _ in range(_CONNECTIONS)
    ]
    cpu, began = cpu_seconds(pids), time.perf_counter()
    done = await asyncio.gather(*map(read_on, clients))
    cpu, wall = cpu_since(pids, cpu), time.perf_counter() - began
    for client in clients:
        await client.close()
    return Sample(sum(done), cpu, cpu, wall).plain()
