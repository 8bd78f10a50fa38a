"""Durable commands per second, compared with plain SQLite."""

import sqlite3
from contextlib import closing
from pathlib import Path
from secrets import token_hex

from fairwarning.service.clock import RealClock
from fairwarning.service.fleet import Fleet
from fairwarning.store.sqlite import SQLiteStore
from tests.bench import fleets
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result, Target, described, number
from tests.bench.measure import Sample, Stopwatch
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
    with closing(Raw(context.folder / "raw.db")) as raw, fleets.runner() as loop:
        fleet = Fleet(store, RealClock(), traffic)
        loop.run(fleet.start())

        def load(submitters: int) -> Sample:
            return loop.run(traffic.load(fleet, shares(scopes, submitters), seconds))

        loop.run(fleets.make(fleet, scopes, _MACHINES))
        loop.run(fleets.enable(fleet, scopes))
        load(fleets.SUBMITTERS)
        samples = context.samples(
            {
                _PEER: lambda: raw.load(seconds),
                _ONE: lambda: load(1),
                _MANY: lambda: load(fleets.SUBMITTERS),
            }
        )
        loop.run(fleet.stop())
        return samples


# --- The peer: plain SQLite with equal durability, one row per transaction ------------------------


_ROWS = 200
_FILLING = "0123456789abcdef" * 30


def body(tag: int, number: int) -> str:
    """About 500 bytes, always different, because SQLite does not write unchanged rows."""
    return f"{tag:08x}{number:08x}{_FILLING}"


class Raw:
    """An SQLite file with the settings of our store."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        for setting in ("locking_mode = EXCLUSIVE", "journal_mode = WAL", "synchronous = FULL"):
            self._database.execute(f"PRAGMA {setting}")
        self._database.execute("CREATE TABLE thing (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
        rows = ((row, body(0, 0)) for row in range(_ROWS))
        self._database.execute("BEGIN")
        self._database.executemany("INSERT INTO thing VALUES (?, ?)", rows)
        self._database.execute("COMMIT")

    def load(self, seconds: float) -> Sample:
        """Update one row per transaction for some seconds."""
        update, tag, done = "UPDATE thing SET body = ? WHERE id = ?", int(token_hex(4), 16), 0
        watch = Stopwatch()
        while not done or watch.passed() < seconds:
            self._database.execute(update, (body(tag, done), done * 7 % _ROWS))
            done += 1
        return watch.sample(done)

    def close(self) -> None:
        """Close the file."""
        self._database.close()
