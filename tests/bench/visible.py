"""The delay from a durable commit to the readable document."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median
from tempfile import mkdtemp

from fairwarning.core.model import Scope
from fairwarning.service.documents import PublishedScope
from fairwarning.service.fleet import Fleet
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch
from tests.bench import fleets
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result, described
from tests.bench.measure import MICRO, percentile
from tests.bench.traffic import Traffic, shares
from tests.fixtures.fleet import wait_for_change

_SCOPES = 200
_MACHINES = 10
_PEER = "the commit itself"
_RETURN = "durable on the disk → the fleet knows"
_READ = "the fleet knows → the new document can be read"
_WOKEN = "the fleet knows → a waiting reader runs"
_VERSION = "2020-07-01"
_SHARES = {"p50 µs": 0.5, "p99 µs": 0.99}

Laps = dict[str, list[float]]


class Stamped(SQLiteStore):
    """A store that records when commits begin, become durable and return."""

    def __init__(self, path: Path, laps: Laps) -> None:
        super().__init__(path)
        self._laps = laps
        self._durable = 0.0
        self.returned = 0.0

    def _commit(self, batch: Batch) -> float | None:
        began = time.perf_counter()
        due = super()._commit(batch)
        self._durable = time.perf_counter()
        self._laps[_PEER].append(self._durable - began)
        return due

    async def commit(self, batch: Batch) -> float | None:
        due = await super().commit(batch)
        self.returned = time.perf_counter()
        self._laps[_RETURN].append(self.returned - self._durable)
        return due


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    with fleets.runner() as loop:
        taken = context.in_turn({"": lambda: loop.run(_round(context))})[""]
    rows = {
        name: {
            head: median(percentile(laps[name], share) * MICRO for laps in taken)
            for head, share in _SHARES.items()
        }
        for name in (_PEER, _RETURN, _READ, _WOKEN)
    }
    peer = rows[_PEER]["p50 µs"]
    for row in rows.values():
        row["p50 ÷ commit"] = row["p50 µs"] / peer
    return Result(
        *described("visible", submitters=fleets.SUBMITTERS, scopes=_SCOPES, machines=_MACHINES),
        rows=rows,
    )


async def _round(context: BenchmarkContext) -> Laps:
    laps: Laps = {name: [] for name in (_PEER, _RETURN, _READ, _WOKEN)}
    scopes = fleets.scope_names(_SCOPES)
    store, traffic = Stamped(Path(mkdtemp(dir=context.folder), "fleet.db"), laps), Traffic()
    async with fleets.serving(store, traffic) as fleet:
        await fleets.make(fleet, scopes, _MACHINES)
        await fleets.enable(fleet, scopes)
        readers = await _attend(fleet, scopes, store, laps)
        for durations in laps.values():
            durations.clear()
        await traffic.load(fleet, shares(scopes, fleets.SUBMITTERS), context.effort.seconds)
        for reader in readers:
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader
    return laps


async def _attend(
    fleet: Fleet, scopes: Sequence[str], store: Stamped, laps: Laps
) -> list[asyncio.Task[None]]:
    """Start a reader for each scope that measures each published document."""
    publish = fleet.documents.publish
    committed: dict[str, float] = {}

    def published(name: str, scope: Scope | None) -> None:
        publish(name, scope)
        document = fleet.documents.get(name)
        assert document is not None
        assert document.scope is scope
        laps[_READ].append(time.perf_counter() - store.returned)
        committed[name] = store.returned

    async def read(name: str, document: PublishedScope) -> None:
        while True:
            await wait_for_change(document, document.incarnation)
            laps[_WOKEN].append(time.perf_counter() - committed[name])
            document.body(_VERSION)

    documents = {name: await fleet.documents.fetch(name) for name in scopes}
    fleet.documents.publish = published  # type: ignore[assignment, method-assign]
    return [asyncio.create_task(read(name, document)) for name, document in documents.items()]
