"""Durable commands on PostgreSQL, from one and two processes, compared with plain PostgreSQL."""

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Any

from tests.bench import fleets
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result
from tests.bench.fleets import SCOPE
from tests.bench.homes import Databases, on_postgresql
from tests.bench.measure import MICRO, Sample, middle
from tests.bench.raw import body
from tests.bench.traffic import WORDS

_NAME = "cluster-commands"
_TITLE = "Commands on PostgreSQL"
_PEER = "PostgreSQL alone, one row a transaction"
_MANY = fleets.SUBMITTERS
_CASES = {  # processes, submitters per process
    "1 process, 1 submitter": (1, 1),
    f"1 process, {_MANY} submitters": (1, _MANY),
    f"2 processes, {_MANY} submitters each": (2, _MANY),
}
_ABOUT = (
    f"{WORDS}: on scopes of {SCOPE} machines; every command is awaited until it is durable and "
    "visible. PostgreSQL runs on the same machine and flushes every commit; each process has its "
    f"own scopes, as many as submitters. Compared with: {_PEER}, of {len(body(0, 0))} bytes, on "
    "one connection. CPU is given for our processes and for PostgreSQL. The log is the "
    "write-ahead log, which a standby would receive."
)


@dataclass(frozen=True, slots=True)
class Spent:
    """The cost of commands, in our process and in the database."""

    done: Sample
    server: float  # microseconds of CPU per command
    log: float  # bytes per command


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    return on_postgresql(context, _NAME, _TITLE, _ABOUT, _run)


def _run(context: BenchmarkContext, home: Databases) -> Result:
    runs: dict[str, Callable[[], Spent]] = {_PEER: partial(_alone, context, home)}
    runs |= {name: partial(_drive, context, home, *case) for name, case in _CASES.items()}
    context.expect(len(runs) * context.effort.rounds)
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
    return Result(_NAME, _TITLE, _ABOUT, rows)


def _alone(context: BenchmarkContext, home: Databases) -> Spent:
    url, server = home.server.url(), home.server.process()
    return _spent(
        [context.probe("row_by_row", url=url, server=server, seconds=context.effort.seconds)]
    )


def _drive(context: BenchmarkContext, home: Databases, processes: int, submitters: int) -> Spent:
    """Each process has as many scopes as the largest case has submitters."""
    scopes = _MANY if context.effort.apart else 1
    how = {
        "url": home.copy(2 * scopes * SCOPE, "driven"),
        "server": home.server.process(),
        "submitters": submitters,
        "seconds": context.effort.seconds,
    }
    with (
        tempfile.TemporaryDirectory(dir=context.folder, suffix=f"-{processes}") as barrier,
        ThreadPoolExecutor(processes) as threads,
    ):

        def drive(at: int) -> Any:  # noqa: ANN401  (see the probe)
            numbers = (at * scopes, (at + 1) * scopes)
            return context.probe("drive", numbers=numbers, barrier=barrier, **how)

        return _spent(list(threads.map(drive, range(processes))))


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
