"""Control planes over TLS: ours, and a minimal one for comparison."""

import math
import shutil
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fairwarning.server.certificates import Authority
from fairwarning.server.ready import read_ready
from tests.bench import contenders, load
from tests.bench.armclients import HOST
from tests.bench.contenders import Recipe, running
from tests.bench.context import BenchmarkContext
from tests.bench.measure import Sample
from tests.bench.processes import Process

OURS = contenders.OURS
BARE = "Starlette on uvicorn"
GROUP = "fairwarning"
VERSION = "api-version=2024-11-01"
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Server:
    """A running control plane."""

    name: str
    process: Process
    port: int
    ca: str
    subscription: str
    token: str

    def path(self, resource: str) -> str:
        """The path of a resource of Microsoft.Compute."""
        home = f"/subscriptions/{self.subscription}/resourceGroups/{GROUP}"
        return f"{home}/providers/Microsoft.Compute/{resource}?{VERSION}"

    def get(self, resource: str) -> bytes:
        """GET a resource on a new connection."""
        tls = ssl.create_default_context(cafile=self.ca)
        connection = HTTPSConnection(HOST, self.port, timeout=60, context=tls)
        try:
            headers = {"Authorization": f"Bearer {self.token}"}
            connection.request("GET", self.path(resource), headers=headers)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        assert answer.status == 200, body
        return body

    def probe(self, context: BenchmarkContext, what: str, **how: Any) -> dict[str, float]:  # noqa: ANN401
        """Run clients on the core for load."""
        headers = f"Host: {HOST}:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
        how |= {"port": self.port, "ca": self.ca, "headers": headers, "pids": self.process.pids()}
        return context.clients(what, **how)  # type: ignore[no-any-return]

    def ask(self, context: BenchmarkContext, resource: str, **how: Any) -> Sample:  # noqa: ANN401
        """Send requests from our own clients: see `ask_over_tls`."""
        return Sample(**self.probe(context, "ask_over_tls", path=self.path(resource), **how))  # type: ignore[arg-type]

    def flood(self, context: BenchmarkContext, resource: str, connections: int) -> Sample:
        """GET a resource as often as possible."""
        seconds = context.effort.seconds
        if not load.has_wrk(context):
            return self.ask(context, resource, connections=connections, seconds=seconds)
        url = f"https://{HOST}:{self.port}{self.path(resource)}"
        words = [
            f"-c{connections}",
            f"-d{math.ceil(seconds)}s",
            "-H",
            f"Authorization: Bearer {self.token}",
        ]
        return load.wrk(self.name, self.process.pids(), [*words, url])

    def resident(self) -> float:
        """Resident memory in MiB."""
        return self.process.resident() / MIB


@contextmanager
def ours(
    context: BenchmarkContext, machines: int, sets: int = 0, instances: int = 0
) -> Iterator[Server]:
    """Run `fairwarning up` with an SQLite file: standalone machines that poll, and scale sets."""
    folder = context.folder / f"arm-{machines}-{sets}"
    data = folder / "data"
    if not data.exists():
        how = {"machines": machines, "sets": sets, "instances": instances}
        context.probe("build_resources", path=str(data / "fleet.db"), **how)
        Authority(data, (HOST,)).prepare()  # else the first start would take longer
    start = partial(contenders.up, folder, "", [])
    recipe = Recipe(OURS, folder, contenders.addresses(1), start, tells=True)
    with running(recipe) as contender:
        ready = read_ready(data)
        port = urlsplit(ready["arm"]).port
        assert port
        yield Server(
            OURS, contender.process, port, ready["ca"], ready["subscription"], ready["token"]
        )


@contextmanager
def bare(context: BenchmarkContext, beside: Server, document: bytes) -> Iterator[Server]:
    """Run a peer with our server's certificate; our server need not be running."""
    folder = context.folder / "bare"
    folder.mkdir(exist_ok=True)
    shutil.copy(Path(beside.ca).with_name("server.pem"), folder)
    (folder / "document").write_bytes(document)
    command = [sys.executable, "-m", "tests.bench.bare", str(folder)]
    with Process(command, folder / "log") as process:
        port = int(process.line())
        yield Server(BARE, process, port, beside.ca, beside.subscription, beside.token)
