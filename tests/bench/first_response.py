"""The time to the first response, and the server's memory at rest."""

import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

from tests.bench import contenders
from tests.bench.clients import poll
from tests.bench.contenders import OURS, Recipe, ask, running
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result, Target, described
from tests.bench.processes import SERVER_CORE, pinned

_PYTHON = "`python -c pass`"
_START = "first answer, ms"
_MEMORY = "resident MiB"
_AT_MOST = {_START: 400.0, _MEMORY: 45.0}


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    ours = contenders.in_memory(context, contenders.SCALE_SET)
    with running(ours) as server:
        body = server.answer.partition(b"\r\n\r\n")[2]
    peers, missing = contenders.peers(context, ours.addresses, body)
    runs: dict[str, Callable[[], dict[str, float]]] = {
        recipe.name: partial(_start, recipe) for recipe in (ours, *peers)
    }
    runs[_PYTHON] = _bare_python
    rows = context.medians(runs)
    return Result(
        *described("first-response", machines=contenders.SCALE_SET, python=_PYTHON),
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
