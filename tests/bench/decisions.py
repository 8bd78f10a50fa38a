"""Pure decisions: the time to decide a command, without store or clock."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from itertools import count

from fairwarning.core import cascade
from fairwarning.core.commands import Approve, Command, CreateScope, Poll, ReportImpact, Restart
from fairwarning.core.limits import POLL_RECORD_SECONDS
from fairwarning.core.model import Entity, Ref, ScopeKind, guid
from tests.bench.commands import body
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result, described
from tests.bench.fleets import machine, machine_name
from tests.bench.measure import MICRO, Sample, repeat

_SCOPE = "scope"
_MACHINES = 10
_NOW = 1_767_960_000.0
_PEER = "SQLite in memory, one row updated"


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    seconds = context.effort.seconds / 4
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as database:
        contenders: dict[str, Callable[[], Sample]] = {
            name: lambda act=act: repeat(act, seconds)  # type: ignore[misc]
            for name, act in {**_decisions(), _PEER: _update(database)}.items()
        }
        taken = context.samples(contenders)
    peer = taken[_PEER].cpu_us
    rows = {
        name: {
            "CPU µs": sample.cpu_us,
            "a second of CPU": MICRO / sample.cpu_us,
            "÷ SQLite in memory": sample.cpu_us / peer,
        }
        for name, sample in taken.items()
    }
    return Result(
        *described("decisions", machines=_MACHINES, peer=_PEER, size=len(body(0, 0))),
        rows=rows,
    )


def _decisions() -> dict[str, Callable[[], object]]:
    """Functions that each decide a command, repeatably from the same state."""
    entities: dict[Ref, Entity | None] = {}
    machines = tuple(machine(_SCOPE, number) for number in range(_MACHINES))
    create = CreateScope(scope=_SCOPE, kind=ScopeKind.AVAILABILITY_SET, machines=machines)
    restart = Restart(scope=_SCOPE, operation="op", machines=(machine_name(_SCOPE, 0),))
    event = guid("", "op", _SCOPE, "ud0", repr(_NOW))
    approve = Approve(scope=_SCOPE, events=(event,), actor="machine")
    acts: dict[str, Callable[[], object]] = {}

    def enter(command: Command) -> cascade.Outcome:
        outcome = cascade.run(command, _NOW, entities.get)
        entities.update({ref: after for ref, (_, after) in outcome.changes.items()})
        return outcome

    def ready(command: Command, now: float = _NOW) -> None:
        get = dict(entities).get
        acts[type(command).__name__] = lambda: cascade.run(command, now, get)

    enter(create)
    enter(Poll(scope=_SCOPE))
    ready(restart)
    enter(restart)
    ready(approve)
    (impact,) = enter(approve).impacts
    ready(ReportImpact(scope=_SCOPE, machine=impact.machine, impact=impact.id))
    ready(Poll(scope=_SCOPE, actor="machine"), _NOW + POLL_RECORD_SECONDS)
    return acts


def _update(database: sqlite3.Connection) -> Callable[[], object]:
    database.execute("CREATE TABLE thing (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
    database.execute("INSERT INTO thing VALUES (1, '')")
    numbers = count()
    return lambda: database.execute("UPDATE thing SET body = ?", (body(0, next(numbers)),))
