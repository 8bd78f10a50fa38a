"""Two processes on one PostgreSQL: the delay until a change through one is seen by the other."""

from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import median
from urllib.parse import urlsplit

from fairwarning.server.ready import read_ready
from tests.bench import contenders
from tests.bench.contenders import Contender, running
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Figures, Result, Target, described
from tests.bench.fleets import SMALL_FLEET
from tests.bench.processes import CORES
from tests.bench.storage import Databases, on_postgresql
from tests.bench.two_processes import ANOTHER

Rows = dict[str, dict[str, float]]

_PEER = "PostgreSQL alone: a row is written → a listener has heard"
_AT_MOST = 50.0


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    return on_postgresql(context, described("cluster-visible", machines=SMALL_FLEET), _run)


def _run(context: BenchmarkContext, storage: Databases) -> Figures:
    url, changes = storage.copy(SMALL_FLEET, "seen"), context.effort.changes
    with ExitStack() as stack:
        words = [storage.words(url, f"seen-{at}") for at in range(2)]
        places = [_place(stack.enter_context(_up(context, options)), options) for options in words]

        def ours() -> Rows:
            rows: Rows = context.probe("seen_through_both", places=places, changes=changes)
            return rows

        def peer() -> Rows:
            return {_PEER: context.probe("notified", url=storage.server.url(), changes=changes)}

        taken = context.in_turn({"ours": ours, "peer": peer})
    rows = {
        name: {column: median(sample[name][column] for sample in samples) for column in row}
        for samples in taken.values()
        for name, row in samples[0].items()
    }
    value = rows[ANOTHER]["p99 ms"]
    target = Target(f"{ANOTHER}: p99 ms", value, _AT_MOST, at_least=False)
    return rows, (target,), ()


def _up(context: BenchmarkContext, words: list[str]) -> AbstractContextManager[Contender]:
    folder = context.folder / Path(words[-1]).name
    recipe = contenders.with_stored_fleet(folder, contenders.OURS, contenders.addresses(1), words)
    return running(replace(recipe, cores=CORES))


def _place(server: Contender, words: list[str]) -> dict[str, str | int]:
    """The addresses of the metadata endpoint and of the console."""
    ready = read_ready(Path(words[-1]))
    return {
        "address": server.addresses[0],
        "port": server.port,
        "host": urlsplit(ready["console"]).netloc,
        "token": ready["token"],
    }
