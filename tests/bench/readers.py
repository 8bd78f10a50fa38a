"""Readers of a long journal, and what commands, approvals and timers notice of them (IB3)."""

import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.bench import contenders
from tests.bench.clients import addresses
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result, Target, described
from tests.bench.processes import LOAD_CORE, Process, pinned
from tests.bench.reading import (
    ASKED,
    ASKED_MACHINES,
    TIMED,
    TIMED_MACHINES,
    timed,
    write_lines,
)
from tests.bench.storage import databases
from tests.fixtures.postgres.programs import NoPostgreSQL

_READERS = 50
_LINES = 10  # of the journal, per command of history
_SAMPLES = 5  # times the usual length of a sample
_AT_MOST = 2.0
_LATE_MS = 1000.0
_WITHOUT, _WITH = "no readers", "with readers"
_FLEET = (
    f'[rules]\nreboot_seconds = 1\n[[availability_set]]\nname = "{ASKED}"\n'
    f"machines = {ASKED_MACHINES}\nupdate_domains = 1\n"
) + "".join(f'[[machine]]\nname = "{TIMED}_{n}"\n' for n in range(TIMED_MACHINES))


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    lines = max(context.effort.history * _LINES, 1000)
    readers = _READERS if context.effort.apart else 2
    notes: list[str] = []
    runs: dict[str, Callable[[], dict[str, float]]] = {}
    with ExitStack() as stack:
        stores = stack.enter_context(_stores(context, notes))
        for store, (data, words) in stores.items():
            context.probe(write_lines, data=data, lines=lines)
            place = stack.enter_context(_serving(context.folder / f"up-{store}", words, lines))
            for name, count in {_WITHOUT: 0, _WITH: readers}.items():
                runs[f"{store}, {name}"] = partial(_sample, context, place, count)
        rows = context.medians(runs)
    return Result(
        *described(
            "readers", readers=readers, machines=ASKED_MACHINES + TIMED_MACHINES, lines=lines
        ),
        rows=rows,
        targets=tuple(_targets(rows, list(stores))),
        notes=tuple(notes),
    )


@contextmanager
def _stores(
    context: BenchmarkContext, notes: list[str]
) -> Iterator[dict[str, tuple[str, list[str]]]]:
    """The data of each store, and the options of `up` that name it."""
    folder = str(context.folder / "readers-sqlite")
    stores = {"SQLite": (folder, ["--data", folder])}
    try:
        with databases(context) as storage:
            url = storage.server.database()
            stores["PostgreSQL"] = url, storage.words(url, "readers")
            yield stores
    except NoPostgreSQL as reason:
        notes.append(f"PostgreSQL: not measured, because {reason}.")
        yield stores


@contextmanager
def _serving(folder: Path, words: list[str], lines: int) -> Iterator[dict[str, Any]]:
    """Serve this data; yields what the clients need to know."""
    machines = addresses(range(1, ASKED_MACHINES + TIMED_MACHINES + 1))
    start = partial(contenders.serve, folder, _FLEET, ["--json", *words])
    with contenders.running(contenders.Recipe("", folder, machines, start)) as server:
        ready: dict[str, Any] = json.loads(server.process.line())
        yield {
            "address": machines[0],
            "timed": machines[ASKED_MACHINES:],
            "port": server.port,
            "host": urlsplit(ready["console"]).netloc,
            "token": ready["token"],
            "lines": lines,
        }


def _sample(context: BenchmarkContext, place: Mapping[str, Any], readers: int) -> dict[str, float]:
    seconds = max(context.effort.seconds * _SAMPLES, 0.1)
    words = [sys.executable, "-m", "tests.bench.reading", json.dumps(place), str(readers)]
    with Process(words, context.folder / "log-readers", cores=(LOAD_CORE,)) as others:
        others.line()
        with pinned(LOAD_CORE):
            figures: dict[str, float] = context.probe(timed, place=place, seconds=seconds)
        others.signal(signal.SIGTERM)
        pages = int(others.line())
    return {**figures, "pages a second": pages / seconds} if readers else figures


def _targets(rows: Mapping[str, Mapping[str, float]], stores: list[str]) -> Iterator[Target]:
    for store in stores:
        without, beside = rows[f"{store}, {_WITHOUT}"], rows[f"{store}, {_WITH}"]
        for what in ("command", "approval"):
            ratio = beside[f"{what} p99 ms"] / without[f"{what} p99 ms"]
            yield Target(
                f"{store}: {what} p99, with readers ÷ without", ratio, _AT_MOST, at_least=False
            )
        late = beside["latest start, ms"]
        yield Target(f"{store}: latest start with readers, ms", late, _LATE_MS, at_least=False)
