"""The delay from a durable commit to the readable document."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

from fairwarning.core.model import Scope
from fairwarning.service.documents import PublishedScope
from fairwarning.service.fleet import Fleet
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch
from tests.bench import fleets
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result
from tests.bench.measure import Laps
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


class Stamped(SQLiteStore):
    """A store that records when commits begin, become durable and return."""

    def __init__(self, path: Path, laps: dict[str, Laps]) -> None:
        super().__init__(path)
        self._laps = laps
        self._durable = 0.0
        self.returned = 0.0

    def _commit(self, batch: Batch) -> float | None:
        began = time.perf_counter()
        due = super()._commit(batch)
        self._laps[_PEER].add(began)
        self._durable = time.perf_counter()
        return due

    async def commit(self, batch: Batch) -> float | None:
        due = await super().commit(batch)
        self._laps[_RETURN].add(self._durable)
        self.returned = time.perf_counter()
        return due


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    with fleets.runner() as loop:
        taken = context.in_turn({"": lambda: loop.run(_round(context))})[""]
    rows = {
        name: {
            head: median(laps[name].us(share) for laps in taken) for head, share in _SHARES.items()
        }
        for name in (_PEER, _RETURN, _READ, _WOKEN)
    }
    peer = rows[_PEER]["p50 µs"]
    for row in rows.values():
        row["p50 ÷ commit"] = row["p50 µs"] / peer
    return Result(
        name="visible",
        title="From durable to visible",
        about=f"{fleets.SUBMITTERS} submitters on {_SCOPES} scopes of {_MACHINES} machines; every "
        "scope has a reader that waits for the next document and renders it. A batch becomes "
        "visible as a whole, so its last scope waits for the others. Compared with: the commit.",
        rows=rows,
    )


async def _round(context: BenchmarkContext) -> dict[str, Laps]:
    laps = {name: Laps() for name in (_PEER, _RETURN, _READ, _WOKEN)}
    path = context.folder / "visible.db"
    path.unlink(missing_ok=True)
    scopes = fleets.scope_names(_SCOPES)
    store, traffic = Stamped(path, laps), Traffic()
    async with fleets.serving(store, traffic) as fleet:
        await fleets.make(fleet, scopes, _MACHINES)
        await fleets.enable(fleet, scopes)
        readers = await _attend(fleet, scopes, store, laps)
        for durations in laps.values():
            durations.seconds.clear()
        await traffic.load(fleet, shares(scopes, fleets.SUBMITTERS), context.effort.seconds)
        for reader in readers:
            reader.cancel()
            with suppress(asyncio.CancelledError):
                await reader
    return laps


async def _attend(
    fleet: Fleet, scopes: Sequence[str], store: Stamped, laps: dict[str, Laps]
) -> list[asyncio.Task[None]]:
    """Start a reader for each scope that measures each published document."""
    publish = fleet.documents.publish
    committed: dict[str, float] = {}

    def published(name: str, scope: Scope | None) -> None:
        publish(name, scope)
        document = fleet.documents.get(name)
        assert document is not None
        assert document.scope is scope
        laps[_READ].add(store.returned)
        committed[name] = store.returned

    async def read(name: str, document: PublishedScope) -> None:
        while True:
            await wait_for_change(document, document.incarnation)
            laps[_WOKEN].add(committed[name])
            document.body(_VERSION)

    documents = {name: await fleet.documents.fetch(name) for name in scopes}
    fleet.documents.publish = published  # type: ignore[assignment, method-assign]
    return [asyncio.create_task(read(name, document)) for name, document in documents.items()]
