"""The cost of recording polls on PostgreSQL, compared with a transaction for each (X5)."""

import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from random import Random
from statistics import median

from fairwarning.core.limits import POLL_RECORD_SECONDS
from fairwarning.service.polls import STATEMENT_SCOPES
from tests.bench import fleets
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Figures, Result, Target, described
from tests.bench.generate import store_of
from tests.bench.measure import MICRO
from tests.bench.pgcommands import Meter, row_by_row
from tests.bench.storage import Databases, on_postgresql

_SCOPES = 1_000_000
_PEER = "PostgreSQL alone, one row a transaction"
_OURS = f"{STATEMENT_SCOPES:,} scopes a statement"
_BOUND = 5.0


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    text = described(
        "recording",
        statement=STATEMENT_SCOPES,
        scopes=_SCOPES,
        minutes=POLL_RECORD_SECONDS // 60,
        peer=_PEER,
    )
    return on_postgresql(context, text, _run)


def _run(context: BenchmarkContext, storage: Databases) -> Figures:
    server = storage.server.process()
    url = storage.server.database()
    context.probe(record, url=url, server=server, scopes=context.effort.vast)  # fills the table
    runs: dict[str, Callable[[], dict[str, float]]] = {
        _PEER: partial(_alone, context, storage),
        _OURS: partial(context.probe, record, url=url, server=server, scopes=context.effort.vast),
    }
    taken = context.in_turn(runs)
    storage.server.drop(url)
    rows = {}
    for name, rounds in taken.items():
        cpu = median(spent["cpu"] for spent in rounds)
        rows[name] = {
            "PostgreSQL's CPU µs a scope": cpu * MICRO,
            "bytes of log a scope": median(spent["log"] for spent in rounds),
            f"% of a core, {_SCOPES:,} scopes": cpu * _SCOPES / POLL_RECORD_SECONDS * 100,
        }
    share = rows[_OURS][f"% of a core, {_SCOPES:,} scopes"]
    target = Target(f"{_SCOPES:,} scopes: recording polls, % of a core", share, _BOUND, False)
    return rows, (target,), ()


def _alone(context: BenchmarkContext, storage: Databases) -> dict[str, float]:
    url, server = storage.server.url(), storage.server.process()
    report = context.probe(row_by_row, url=url, server=server, seconds=context.effort.seconds)
    count = report["sample"]["count"]
    return {
        what: (report["after"][what] - report["before"][what]) / count for what in ("cpu", "log")
    }


async def record(url: str, server: int, scopes: int) -> dict[str, float]:
    """Record the polls of all scopes once; return the database's usage for each."""
    names = fleets.scope_names(scopes)
    Random(scopes).shuffle(names)
    store = store_of(url)
    await store.open()
    try:
        with closing(Meter(url, server)) as meter:
            before, now = meter.read(), time.time()
            for first in range(0, scopes, STATEMENT_SCOPES):
                await store.record_polls(
                    dict.fromkeys(names[first : first + STATEMENT_SCOPES], now)
                )
            meter.checkpoint()
            after = meter.read()
    finally:
        await store.close()
    return {what: (after[what] - before[what]) / scopes for what in before}
