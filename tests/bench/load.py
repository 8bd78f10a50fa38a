"""Load on a server: from wrk if it is installed, else from our own clients."""

import math
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.bench import clients
from tests.bench.contenders import Contender, installed
from tests.bench.context import BenchmarkContext
from tests.bench.measure import Sample
from tests.bench.processes import LOAD_CORE, cpu_seconds, pinned

CONNECTIONS = 64

PATH = "/metadata/scheduledevents?api-version=2020-07-01"
_SCRIPT = Path(__file__).parent / "peers" / "each_another.lua"
_DONE = re.compile(r"([0-9]+) requests in")
_WRONG = re.compile(r"Non-2xx.*|Socket errors.*")


def described(context: BenchmarkContext) -> str:
    """Describe the load generator and the servers."""
    if not has_wrk(context):
        generator = "our own clients on uvloop, because wrk is not installed"
        return f"Load: {generator}; {CONNECTIONS} connections."
    versions = {"wrk": ["wrk", "-v"], "nginx": ["nginx", "-v"], "Go": ["go", "version"]}
    here = [_version(name, *words) for name, words in versions.items() if installed(words[0])]
    return f"Load: wrk, one thread, {CONNECTIONS} connections. Installed: {', '.join(here)}."


def _version(name: str, program: str, word: str) -> str:
    command = [installed(program) or program, word]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    match = re.search(r"[0-9]+(\.[0-9]+)+", done.stdout + done.stderr)
    return f"{name} {match[0]}" if match else name


def flood(context: BenchmarkContext, server: Contender, kind: str = "") -> Sample:
    """Send as many requests of a kind as possible (see `clients.flood`), from one machine."""
    if has_wrk(context):
        return _wrk(server, math.ceil(context.effort.seconds), kind)
    return spread(context, server, [server.addresses[0]] * CONNECTIONS, kind)


def spread(
    context: BenchmarkContext, server: Contender, addresses: list[str], kind: str = ""
) -> Sample:
    """Send as many requests as possible from our own clients, one connection per address."""
    how = {"asking": addresses, "seconds": context.effort.seconds, "kind": kind}
    return Sample(**probe(context, clients.flood, server, pids=server.process.pids(), **how))


def probe(
    context: BenchmarkContext, function: Callable[..., Any], server: Contender, **how: object
) -> Any:  # noqa: ANN401  (its result)
    """Run clients of a server on the core for load."""
    return context.clients(function, port=server.port, **how)


def has_wrk(context: BenchmarkContext) -> bool:
    """Whether wrk generates the load."""
    return context.effort.apart and installed("wrk") is not None


def _wrk(server: Contender, seconds: int, kind: str) -> Sample:
    url = f"http://{server.addresses[0]}:{server.port}{PATH}"
    words = [f"-c{CONNECTIONS}", f"-d{seconds}s", "-H", "Metadata: true"]
    if kind == "close":
        words += ["-H", "Connection: close"]
    script = ["-s", str(_SCRIPT)] if kind in {"same", "changing", "header"} else []
    return wrk(server.name, server.process.pids(), [*words, *script, url, "--", kind])


def wrk(
    name: str, pids: Sequence[int], words: Sequence[str], cores: Sequence[int] = (LOAD_CORE,)
) -> Sample:
    """Run wrk with one thread per core; return the requests and the server's CPU."""
    with pinned(*cores):
        cpu, began = cpu_seconds(pids), time.perf_counter()
        done = subprocess.run(
            ["wrk", f"-t{len(cores)}", *words], stdout=subprocess.PIPE, text=True, check=True
        ).stdout
        cpu, wall = cpu_seconds(pids) - cpu, time.perf_counter() - began
    match = _DONE.search(done)
    if not match or _WRONG.search(done):
        raise ValueError(f"wrk got no valid responses from {name}: {done}")
    return Sample(int(match[1]), cpu, cpu, wall)
