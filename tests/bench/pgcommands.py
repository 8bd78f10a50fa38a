"""Durable commands on PostgreSQL, from one to four processes, compared with plain PostgreSQL.

All of them and the database share the cores of one machine, so four processes are no faster here
than two. What a server of its own would commit follows from two figures that do not depend on the
number of cores: the CPU time of a command, and how far commits that take long wait for each other.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from secrets import token_hex
from statistics import median
from typing import Any

import psycopg

from tests.bench import fleets
from tests.bench.commands import body
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Figures, Result, Target, described
from tests.bench.fleets import SCOPE, serving
from tests.bench.generate import store_of
from tests.bench.measure import MICRO, Sample, Stopwatch, middle
from tests.bench.processes import family_seconds
from tests.bench.storage import Databases, on_postgresql
from tests.bench.traffic import WORDS, Traffic, shares

_PEER = "PostgreSQL alone, one row a transaction"
_MANY = fleets.SUBMITTERS
_PROCESSES = 4
_ONE = f"1 process, {_MANY} submitters"
_SLOW_SECONDS = 0.5
_SLOW_ONE = f"1 process, commits take {_SLOW_SECONDS:g} s longer"
_SLOW_MANY = f"{_PROCESSES} processes, commits take {_SLOW_SECONDS:g} s longer"
_CASES = {  # processes, submitters per process, seconds by which a commit takes longer
    "1 process, 1 submitter": (1, 1, 0.0),
    _ONE: (1, _MANY, 0.0),
    f"2 processes, {_MANY} submitters each": (2, _MANY, 0.0),
    f"{_PROCESSES} processes, {_MANY} submitters each": (_PROCESSES, _MANY, 0.0),
    _SLOW_ONE: (1, _MANY, _SLOW_SECONDS),
    _SLOW_MANY: (_PROCESSES, _MANY, _SLOW_SECONDS),
}
_AT_LEAST = 10_000
ROWS = 200
TABLE = "CREATE TABLE IF NOT EXISTS thing (id integer PRIMARY KEY, body text NOT NULL)"
FILL = "INSERT INTO thing SELECT n, '' FROM generate_series(0, %s) AS n ON CONFLICT DO NOTHING"
UPDATE = "UPDATE thing SET body = %s WHERE id = %s"
_POSITION = "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint"
_LOOK_SECONDS = 0.001
_ROW_WORK = "INSERT INTO journal"  # the last part of a commit that writes rows


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of commands, in our process and in the database."""

    done: Sample
    server: float  # microseconds of CPU per command
    log: float  # bytes per command


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    text = described(
        "cluster-commands",
        words=WORDS,
        machines=SCOPE,
        peer=_PEER,
        size=len(body(0, 0)),
        slow=_SLOW_SECONDS,
        processes=_PROCESSES,
    )
    return on_postgresql(context, text, _run)


def _run(context: BenchmarkContext, storage: Databases) -> Figures:
    runs: dict[str, Callable[[], Spent]] = {_PEER: partial(_alone, context, storage)}
    runs |= {name: partial(_drive, context, storage, *case) for name, case in _CASES.items()}
    taken = context.in_turn(runs)
    samples = {name: middle([spent.done for spent in rounds]) for name, rounds in taken.items()}
    peer = samples[_PEER].rate
    rows = {
        name: {
            "a second": sample.rate,
            "÷ PostgreSQL alone": sample.rate / peer,
            "CPU µs": sample.cpu_us,
            "PostgreSQL's CPU µs": median(spent.server for spent in taken[name]),
            "wall µs": sample.wall_us,
            "bytes of log": median(spent.log for spent in taken[name]),
        }
        for name, sample in samples.items()
    }
    what = f"{_PROCESSES} processes, with cores of their own: a second (computed)"
    one = rows[_ONE]  # if no process waits for a core: see the text
    command = one["CPU µs"] + one["PostgreSQL's CPU µs"] + rows[_PEER]["wall µs"] / _MANY
    rate = MICRO / command * rows[_SLOW_MANY]["a second"] / rows[_SLOW_ONE]["a second"]
    return rows, (Target(what, rate, _AT_LEAST, at_least=True),), ()


def _alone(context: BenchmarkContext, storage: Databases) -> Spent:
    url, server = storage.server.url(), storage.server.process()
    return _spent(
        [context.probe(row_by_row, url=url, server=server, seconds=context.effort.seconds)]
    )


def _drive(
    context: BenchmarkContext, storage: Databases, processes: int, submitters: int, longer: float
) -> Spent:
    """Each process has as many scopes as the largest case has submitters."""
    scopes = _MANY if context.effort.apart else 1
    url = storage.copy(_PROCESSES * scopes * SCOPE, "driven")
    if longer:
        _slow_down(url, longer)
    how = {
        "url": url,
        "server": storage.server.process(),
        "submitters": submitters,
        "seconds": context.effort.seconds,
    }
    with (
        tempfile.TemporaryDirectory(dir=context.folder, suffix=f"-{processes}") as barrier,
        ThreadPoolExecutor(processes) as threads,
    ):

        def drive_at(at: int) -> Any:  # noqa: ANN401  (see the probe)
            numbers = (at * scopes, (at + 1) * scopes)
            return context.probe(drive, numbers=numbers, barrier=barrier, **how)

        return _spent(list(threads.map(drive_at, range(processes))))


def _slow_down(url: str, seconds: float) -> None:
    """Let every commit wait, without using a core, while it writes its rows."""
    with psycopg.connect(url) as connection:
        connection.execute("SET search_path TO fairwarning")
        row = connection.execute("SELECT pg_get_functiondef('write_batch'::regproc)").fetchone()
        assert row
        slow = row[0].replace(_ROW_WORK, f"PERFORM pg_sleep({seconds}); {_ROW_WORK}")
        assert slow != row[0], "the function that commits has changed"
        connection.execute(slow.encode())


def _spent(reports: Sequence[Any]) -> Spent:
    samples = [Sample(**report["sample"]) for report in reports]
    count = sum(sample.count for sample in samples)
    cpu, own = sum(sample.cpu for sample in samples), sum(sample.own for sample in samples)
    used = {
        what: max(report["after"][what] for report in reports)
        - min(report["before"][what] for report in reports)
        for what in ("cpu", "log")
    }
    wall = max(sample.wall for sample in samples)
    return Spent(Sample(count, cpu, own, wall), used["cpu"] / count * MICRO, used["log"] / count)


# --- In a separate process ------------------------------------------------------------------------


class Meter:
    """The database's own usage so far: bytes of log, seconds of CPU."""

    def __init__(self, url: str, server: int) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._server = server

    def read(self) -> dict[str, float]:
        row = self._connection.execute(_POSITION).fetchone()
        assert row
        return {"log": float(row[0]), "cpu": family_seconds(self._server)}

    def checkpoint(self) -> None:
        self._connection.execute("CHECKPOINT")

    def close(self) -> None:
        self._connection.close()


async def drive(
    url: str,
    server: int,
    *,
    numbers: Sequence[int],
    submitters: int,
    seconds: float,
    barrier: str,
) -> dict[str, Any]:
    """Submit commands on these scopes, once all processes have reached the barrier."""
    scopes = fleets.scope_names(numbers[1])[slice(*numbers)]
    traffic = Traffic()
    async with serving(store_of(url), traffic) as fleet:
        await fleets.enable(fleet, scopes)
        with closing(Meter(url, server)) as meter:
            await asyncio.to_thread(_meet, Path(barrier))
            before = meter.read()
            sample = await traffic.load(fleet, shares(scopes, submitters), seconds)
            return {"sample": sample.plain(), "before": before, "after": meter.read()}


def _meet(folder: Path) -> None:
    """Wait for the other processes; the folder's name ends with their number."""
    (folder / token_hex(4)).touch()
    while len(list(folder.iterdir())) < int(folder.name.rpartition("-")[2]):
        time.sleep(_LOOK_SECONDS)


async def row_by_row(url: str, server: int, seconds: float) -> dict[str, Any]:
    """Update one row per transaction, on one connection."""
    tag, done = int(token_hex(4), 16), 0
    with (
        psycopg.connect(url, autocommit=True) as connection,
        closing(Meter(url, server)) as meter,
    ):
        connection.execute(TABLE)
        connection.execute(FILL, (ROWS,))
        before, watch = meter.read(), Stopwatch()
        while not done or watch.passed() < seconds:
            connection.execute(UPDATE, (body(tag, done), done * 7 % ROWS))
            done += 1
        sample = watch.sample(done)
        return {"sample": sample.plain(), "before": before, "after": meter.read()}
