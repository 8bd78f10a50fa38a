"""Durable commands per second, compared with plain SQLite."""

from contextlib import closing

from fairwarning.store.sqlite import SQLiteStore
from tests.bench import fleets
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result, Target, described, number
from tests.bench.measure import Sample
from tests.bench.raw import Raw, body
from tests.bench.traffic import WORDS, Traffic, shares

_SCOPES = 200
_MACHINES = 10
_PEER = "SQLite alone, one row a transaction"
_ONE = "1 submitter"
_ONE_AT_LEAST = 3000.0  # a second
_MANY = f"{fleets.SUBMITTERS} submitters"


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    taken = _take(context)
    peer, one, many = taken[_PEER], taken[_ONE], taken[_MANY]
    rows = {
        name: {
            "a second": sample.rate,
            "÷ SQLite alone": sample.rate / peer.rate,
            "CPU µs": sample.cpu_us,
            "of it in the loop": sample.own_us,
            "wall µs": sample.wall_us,
        }
        for name, sample in taken.items()
    }
    return Result(
        *described(
            "commands",
            words=WORDS,
            scopes=_SCOPES,
            machines=_MACHINES,
            size=len(body(0, 0)),
        ),
        rows=rows,
        targets=(
            Target(f"{_MANY} ÷ SQLite alone", many.rate / peer.rate, 1.0, at_least=True),
            Target(f"{_ONE}: a second", one.rate, _ONE_AT_LEAST, at_least=True),
        ),
        notes=(_level(peer, many),),
    )


def _level(peer: Sample, many: Sample) -> str:
    return (
        "Concurrent commands share one disk flush; SQLite alone flushes for each row. By these "
        "figures both are equally fast on a disk that takes "
        f"{number(max(many.wall_us - peer.cpu_us, 0))} µs to flush; this disk took "
        f"{number(peer.wall_us - peer.cpu_us)} µs."
    )


def _take(context: BenchmarkContext) -> dict[str, Sample]:
    seconds = context.effort.seconds
    scopes = fleets.scope_names(_SCOPES)
    traffic = Traffic()
    store = SQLiteStore(context.folder / "commands.db")
    with (
        closing(Raw(context.folder / "raw.db")) as raw,
        fleets.held(store, traffic) as (loop, fleet),
    ):

        def load(submitters: int) -> Sample:
            return loop.run(traffic.load(fleet, shares(scopes, submitters), seconds))

        loop.run(fleets.make(fleet, scopes, _MACHINES))
        loop.run(fleets.enable(fleet, scopes))
        load(fleets.SUBMITTERS)
        return context.samples(
            {
                _PEER: lambda: raw.load(seconds),
                _ONE: lambda: load(1),
                _MANY: lambda: load(fleets.SUBMITTERS),
            }
        )
