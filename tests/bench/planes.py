"""Control planes that are asked over TLS: ours as it is run, and a bare one beside it."""

import math
import shutil
import ssl
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from fairwarning.arm.identity.certificates import Authority
from fairwarning.server.ready import read_ready
from tests.bench import contenders, load
from tests.bench.armclients import HOST
from tests.bench.contenders import Recipe, running
from tests.bench.measure import Sample
from tests.bench.processes import LOAD_CORE, Process, pinned
from tests.bench.stage import Stage

OURS = contenders.OURS
BARE = "Starlette on uvicorn"
GROUP = "fairwarning"
VERSION = "api-version=2024-11-01"
MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Server:
    """A control plane that runs."""

    name: str
    process: Process
    port: int
    ca: str
    subscription: str
    token: str

    def path(self, resource: str) -> str:
        """Where a resource of Microsoft.Compute is."""
        home = f"/subscriptions/{self.subscription}/resourceGroups/{GROUP}"
        return f"{home}/providers/Microsoft.Compute/{resource}?{VERSION}"

    def get(self, resource: str) -> tuple[float, bytes]:
        """One GET on a connection of its own: how many seconds it took, and what it gave."""
        tls = ssl.create_default_context(cafile=self.ca)
        began = time.perf_counter()
        connection = HTTPSConnection(HOST, self.port, timeout=60, context=tls)
        try:
            headers = {"Authorization": f"Bearer {self.token}"}
            connection.request("GET", self.path(resource), headers=headers)
            answer = connection.getresponse()
            body = answer.read()
        finally:
            connection.close()
        assert answer.status == 200, body
        return time.perf_counter() - began, body

    def probe(self, stage: Stage, what: str, **how: Any) -> dict[str, float]:  # noqa: ANN401
        """Clients in a process of their own, on the core that is theirs."""
        headers = f"Host: {HOST}:{self.port}\r\nAuthorization: Bearer {self.token}\r\n"
        how |= {"port": self.port, "ca": self.ca, "headers": headers, "pids": self.process.pids()}
        if not stage.effort.apart:
            return stage.probe(what, **how)  # type: ignore[no-any-return]
        with pinned(LOAD_CORE):
            return stage.probe(what, **how)  # type: ignore[no-any-return]

    def ask(self, stage: Stage, resource: str, **how: Any) -> Sample:  # noqa: ANN401
        """Requests of our own clients: see `ask_over_tls`."""
        return Sample(**self.probe(stage, "ask_over_tls", path=self.path(resource), **how))  # type: ignore[arg-type]

    def flood(self, stage: Stage, resource: str, connections: int) -> Sample:
        """As many GETs of a resource as can be."""
        seconds = stage.effort.seconds
        if not load.has_wrk(stage):
            return self.ask(stage, resource, connections=connections, seconds=seconds)
        url = f"https://{HOST}:{self.port}{self.path(resource)}"
        words = [
            f"-c{connections}",
            f"-d{math.ceil(seconds)}s",
            "-H",
            f"Authorization: Bearer {self.token}",
        ]
        return load.wrk(self.name, self.process.pids(), [*words, url])

    def resident(self) -> float:
        """MiB."""
        return self.process.resident() / MIB


@contextmanager
def ours(stage: Stage, machines: int, sets: int = 0, instances: int = 0) -> Iterator[Server]:
    """`fairwarning up` with an SQLite file: machines that stand alone and poll, and scale sets."""
    folder = stage.folder / f"arm-{machines}-{sets}"
    data = folder / "data"
    if not data.exists():
        how = {"machines": machines, "sets": sets, "instances": instances}
        stage.probe("build_resources", path=str(data / "fleet.db"), **how)
        Authority(data, (HOST,)).prepare()  # else the first start would load more than the others
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
def bare(stage: Stage, beside: Server, document: bytes) -> Iterator[Server]:
    """A peer with the certificate of ours, which has one once it was asked; it need not be up."""
    folder = stage.folder / "bare"
    folder.mkdir(exist_ok=True)
    shutil.copy(Path(beside.ca).with_name("server.pem"), folder)
    (folder / "document").write_bytes(document)
    command = [sys.executable, "-m", "tests.bench.bare", str(folder)]
    with Process(command, folder / "log") as process:
        port = int(process.line())
        yield Server(BARE, process, port, beside.ca, beside.subscription, beside.token)
