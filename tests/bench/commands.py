"""Durable commands a second, beside SQLite by itself."""

from contextlib import closing

from fairwarning.store.sqlite import SQLiteStore
from tests.bench import fleets
from tests.bench.figures import Result, Target, number
from tests.bench.measure import Sample, middle
from tests.bench.raw import Raw, body
from tests.bench.stage import Stage
from tests.bench.traffic import WORDS, Traffic, shares

STEPS = 3  # a round

_SCOPES = 200
_MACHINES = 10
_PEER = "SQLite alone, one row a transaction"
_ONE = "1 submitter"
_MANY = f"{fleets.SUBMITTERS} submitters"


def run(stage: Stage) -> Result:
    """Measure."""
    stage.expect(STEPS * stage.effort.rounds)
    taken = {name: middle(samples) for name, samples in _take(stage).items()}
    peer, many = taken[_PEER], taken[_MANY]
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
        name="commands",
        title="Durable commands",
        about=f"{WORDS}: on {_SCOPES} scopes of {_MACHINES} machines, every command awaited until "
        "it is on the disk and visible. Beside it: SQLite alone with the same settings, one UPDATE "
        f"of one row of {len(body(0, 0))} bytes a transaction, by a process that does nothing "
        "else. A command is a decision and five rows.",
        rows=rows,
        targets=(Target(f"{_MANY} ÷ SQLite alone", many.rate / peer.rate, 1.0, True),),
        notes=(_level(peer, many),),
    )


def _level(peer: Sample, many: Sample) -> str:
    return (
        "Commands that wait together share one flush of the disk; SQLite alone flushes for each "
        "row. By these figures the two are level on a disk that takes "
        f"{number(max(many.wall_us - peer.cpu_us, 0))} µs to flush; here one was waited for "
        f"{number(peer.wall_us - peer.cpu_us)} µs."
    )


def _take(stage: Stage) -> dict[str, list[Sample]]:
    seconds = stage.effort.seconds
    scopes = fleets.scope_names(_SCOPES)
    traffic = Traffic()
    store = SQLiteStore(stage.folder / "commands.db")
    with closing(Raw(stage.folder / "raw.db")) as raw, fleets.held(store, traffic) as (loop, fleet):

        def load(submitters: int) -> Sample:
            return loop.run(traffic.load(fleet, shares(scopes, submitters), seconds))

        loop.run(fleets.make(fleet, scopes, _MACHINES))
        loop.run(fleets.enable(fleet, scopes))
        load(fleets.SUBMITTERS)
        return stage.in_turn(
            {
                _PEER: lambda: raw.load(seconds),
                _ONE: lambda: load(1),
                _MANY: lambda: load(fleets.SUBMITTERS),
            }
        )
