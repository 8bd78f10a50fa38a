"""From nothing to the first answer, and what the server takes at rest."""

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from statistics import median

from tests.bench import contenders
from tests.bench.clients import poll
from tests.bench.contenders import OURS, Recipe, ask, running
from tests.bench.figures import Result, Target
from tests.bench.processes import SERVER_CORE, pinned
from tests.bench.stage import Stage

_PYTHON = "`python -c pass`"
_START = "first answer, ms"
_MEMORY = "resident MiB"
_AT_MOST = {_START: 400.0, _MEMORY: 45.0}


def run(stage: Stage) -> Result:
    """Measure."""
    ours = contenders.in_memory(stage, contenders.SCALE_SET)
    with running(ours) as server:
        body = server.answer.partition(b"\r\n\r\n")[2]
    peers, missing = contenders.peers(stage, ours.addresses, body)
    runs: dict[str, Callable[[], dict[str, float]]] = {
        one.name: partial(_start, one) for one in (ours, *peers)
    }
    runs[_PYTHON] = _bare_python
    stage.expect(len(runs) * stage.effort.rounds)
    rows = {
        name: {column: median(one[column] for one in found) for column in found[0]}
        for name, found in stage.in_turn(runs).items()
    }
    return Result(
        name="upstart",
        title="From nothing to the first answer",
        about=f"`fairwarning up --memory` with a fleet file of {contenders.SCALE_SET} machines, "
        "from the moment it is executed until a poll is answered, asked for again and again by "
        "another process; then what is resident of all its processes, once it has said that it is "
        f"up. The servers beside it are those above; {_PYTHON} is the time until it has ended.",
        rows=rows,
        targets=tuple(
            Target(f"{OURS} up: {column}", rows[OURS][column], bound, at_least=False)
            for column, bound in _AT_MOST.items()
        ),
        notes=tuple(missing),
    )


def _start(recipe: Recipe) -> dict[str, float]:
    with running(recipe) as server:
        address = server.addresses[0]
        ask(address, server.port, poll(address))
        seconds, resident = server.first_answer_seconds, server.process.resident()
    return {_START: seconds * 1e3, _MEMORY: resident / (1 << 20)}


def _bare_python() -> dict[str, float]:
    with pinned(SERVER_CORE):
        began = time.perf_counter()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
        return {_START: (time.perf_counter() - began) * 1e3}
