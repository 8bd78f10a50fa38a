"""Durable commands on PostgreSQL, by one process and by two, beside PostgreSQL by itself."""

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from tests.bench import fleets
from tests.bench.figures import Result
from tests.bench.fleets import SCOPE
from tests.bench.homes import Databases, on_postgresql
from tests.bench.measure import MICRO, Sample, middle
from tests.bench.raw import body
from tests.bench.stage import Stage
from tests.bench.traffic import WORDS

_NAME = "cluster-commands"
_TITLE = "Commands on PostgreSQL"
_PEER = "PostgreSQL alone, one row a transaction"
_MANY = fleets.SUBMITTERS
_CASES = {  # processes, submitters of each
    "1 process, 1 submitter": (1, 1),
    f"1 process, {_MANY} submitters": (1, _MANY),
    f"2 processes, {_MANY} submitters each": (2, _MANY),
}
_ABOUT = (
    f"{WORDS}: on scopes of {SCOPE} machines, every command awaited until it is durable and "
    "visible. PostgreSQL runs on the same machine and flushes every commit; each process has "
    f"scopes of its own, as many as submitters. Beside it: {_PEER}, of {len(body(0, 0))} bytes, on "
    "one connection. CPU is that of our processes, and beside it that of PostgreSQL. Of its log, "
    "the write-ahead log, all is sent to a standby."
)


@dataclass(frozen=True, slots=True)
class Spent:
    """What commands took, of us and of the database."""

    done: Sample
    server: float  # microseconds of CPU for each
    log: float  # bytes for each


def run(stage: Stage) -> Result:
    """Measure."""
    return on_postgresql(stage, _NAME, _TITLE, _ABOUT, _run)


def _run(stage: Stage, home: Databases) -> Result:
    runs: dict[str, Callable[[], Spent]] = {_PEER: partial(_alone, stage, home)}
    runs |= {name: partial(_drive, stage, home, *case) for name, case in _CASES.items()}
    stage.expect(len(runs) * stage.effort.rounds)
    taken = stage.in_turn(runs)
    samples = {name: middle([one.done for one in found]) for name, found in taken.items()}
    peer = samples[_PEER].rate
    rows = {
        name: {
            "a second": sample.rate,
            "÷ PostgreSQL alone": sample.rate / peer,
            "CPU µs": sample.cpu_us,
            "PostgreSQL's CPU µs": median(one.server for one in taken[name]),
            "wall µs": sample.wall_us,
            "bytes of log": median(one.log for one in taken[name]),
        }
        for name, sample in samples.items()
    }
    return Result(_NAME, _TITLE, _ABOUT, rows)


def _alone(stage: Stage, home: Databases) -> Spent:
    url, server = home.server.url(), home.server.process()
    return _spent([stage.probe("row_by_row", url=url, server=server, seconds=stage.effort.seconds)])


def _drive(stage: Stage, home: Databases, processes: int, submitters: int) -> Spent:
    """Each process has as many scopes as submitters of the fullest case."""
    scopes = _MANY if stage.effort.apart else 1
    how = {
        "url": home.copy(2 * scopes * SCOPE, "driven"),
        "server": home.server.process(),
        "submitters": submitters,
        "seconds": stage.effort.seconds,
    }
    with (
        tempfile.TemporaryDirectory(dir=stage.folder, suffix=f"-{processes}") as barrier,
        ThreadPoolExecutor(processes) as threads,
    ):

        def one(at: int) -> Any:  # noqa: ANN401  (see the probe)
            numbers = (at * scopes, (at + 1) * scopes)
            return stage.probe("drive", numbers=numbers, barrier=barrier, **how)

        return _spent(list(threads.map(one, range(processes))))


def _spent(told: Sequence[Any]) -> Spent:
    samples = [Sample(**one["sample"]) for one in told]
    count = sum(sample.count for sample in samples)
    cpu, own = sum(sample.cpu for sample in samples), sum(sample.own for sample in samples)
    used = {
        what: max(one["after"][what] for one in told) - min(one["before"][what] for one in told)
        for what in ("cpu", "log")
    }
    wall = max(sample.wall for sample in samples)
    return Spent(Sample(count, cpu, own, wall), used["cpu"] / count * MICRO, used["log"] / count)
