"""Load on a server: by wrk where it is installed, else by clients of our own."""

import math
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.bench.contenders import Contender, installed
from tests.bench.measure import Sample
from tests.bench.processes import LOAD_CORE, cpu_seconds, pinned
from tests.bench.stage import Stage

CONNECTIONS = 64

PATH = "/metadata/scheduledevents?api-version=2020-07-01"
_SCRIPT = Path(__file__).parent / "peers" / "each_another.lua"
_DONE = re.compile(r"([0-9]+) requests in")
_WRONG = re.compile(r"Non-2xx.*|Socket errors.*")


def described(stage: Stage) -> str:
    """Who makes it, and for whom."""
    if not has_wrk(stage):
        return f"Load: clients of our own on uvloop, {CONNECTIONS} connections, for want of wrk."
    versions = {"wrk": ["wrk", "-v"], "nginx": ["nginx", "-v"], "Go": ["go", "version"]}
    here = [_version(name, *words) for name, words in versions.items() if installed(words[0])]
    return f"Load: wrk, one thread, {CONNECTIONS} connections. Here are {', '.join(here)}."


def _version(name: str, program: str, word: str) -> str:
    command = [installed(program) or program, word]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"[0-9]+(\.[0-9]+)+", told.stdout + told.stderr)
    return f"{name} {found[0]}" if found else name


def flood(stage: Stage, server: Contender, kind: str = "") -> Sample:
    """As many requests as can be of a kind (see `clients.flood`), all of one machine."""
    if has_wrk(stage):
        return _wrk(server, math.ceil(stage.effort.seconds), kind)
    return spread(stage, server, [server.addresses[0]] * CONNECTIONS, kind)


def spread(stage: Stage, server: Contender, addresses: list[str], kind: str = "") -> Sample:
    """The same by clients of our own, on a connection to each of these addresses."""
    how = {"addresses": addresses, "seconds": stage.effort.seconds, "kind": kind}
    return Sample(**probe(stage, "flood", server, pids=server.process.pids(), **how))


def probe(stage: Stage, what: str, server: Contender, **how: object) -> Any:  # noqa: ANN401
    """Clients in a process of their own, on the core that is theirs."""
    if not stage.effort.apart:
        return stage.probe(what, port=server.port, **how)
    with pinned(LOAD_CORE):
        return stage.probe(what, port=server.port, **how)


def has_wrk(stage: Stage) -> bool:
    """Whether load comes from there."""
    return stage.effort.apart and installed("wrk") is not None


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
    """What wrk got of a server, with a thread a core, and what that took the server."""
    with pinned(*cores):
        cpu, began = cpu_seconds(pids), time.perf_counter()
        done = subprocess.run(
            ["wrk", f"-t{len(cores)}", *words], stdout=subprocess.PIPE, text=True, check=True
        ).stdout
        cpu, wall = cpu_seconds(pids) - cpu, time.perf_counter() - began
    found = _DONE.search(done)
    if not found or _WRONG.search(done):
        raise ValueError(f"wrk had no good answers of {name}: {done}")
    return Sample(int(found[1]), cpu, cpu, wall)
