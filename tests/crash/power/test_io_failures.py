"""P6: the n-th use of a file fails, for every n; in `make test`, for every fourth."""

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest

from fairwarning.core.errors import Unavailable
from fairwarning.store import sqlite
from fairwarning.store.store import Store
from tests.campaigns import split
from tests.crash.power.failing import KINDS, FailingVFS, Failure
from tests.crash.power.workload import SHORT_LOG, Workload, differs, number_of, scratch, small_store

BATCHES = 5


class FailureTest:
    """A short workload on failing files."""

    def __init__(self, path: Path, failure: Failure) -> None:
        self.path = path
        self.failure = failure
        self.workload = Workload(seed=2)
        self.refusals: Counter[str] = Counter()

    async def run(self) -> None:
        """Open, commit, close; refused calls have clear errors and succeed when repeated."""
        vfs = FailingVFS(f"failing-{id(self)}", self.failure)
        store = small_store(self.path, vfs.name)
        try:
            while not await self._try_open(store):
                pass
            for _ in range(BATCHES):
                while not await self._try_commit(store):
                    pass
            await store.close()
        finally:
            vfs.unregister()
        store = small_store(self.path)
        await store.open()
        assert await differs(store, self.workload.state(), set()) == ""
        await store.close()

    async def _try_open(self, store: Store) -> bool:
        try:
            await store.open()
        except Unavailable as error:
            self._count(error)
            return False
        return True

    async def _try_commit(self, store: Store) -> bool:
        undo = self.workload.saved()
        try:
            await store.commit(self.workload.batch(3))
        except Unavailable as error:
            self._count(error)
            code = error.code
        else:
            return True
        self.failure.off = True
        if await number_of(store) == self.workload.number:
            assert code == "StoreUnclear", "a refused batch has taken effect"
        else:
            undo()
        assert await differs(store, self.workload.state(), set()) == ""
        self.failure.off = False
        return False

    def _count(self, error: Unavailable) -> None:
        self.refusals[error.code] += 1
        assert self.refusals.total() <= self.failure.count, "it does not recover"
        unclear = {"StoreUnclear"} if self.failure.count > 1 else set()
        assert error.code in {"StoreFailed", "StoreFull", *unclear}


@pytest.mark.parametrize("kind", split(KINDS, 1))
@pytest.mark.parametrize(("count", "step"), split([(1, 4), (25, 7), (1, 1)], 2))
def test_the_nth_use_of_a_file_fails(
    kind: str, count: int, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clear errors, nothing acknowledged lost, and full recovery after the failures.

    A refused batch has no effect; only after several failures in a row its outcome may be unclear.
    """
    monkeypatch.setattr(sqlite, "_LOG_PAGES", SHORT_LOG)
    # Where SQLite itself ignores an error, as in a rollback, apsw can only report it to this hook.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    counting = Failure(kind)
    refusals: Counter[str] = Counter()
    with scratch() as name:
        asyncio.run(FailureTest(Path(name, "counting.db"), counting).run())
        uses = range(1, counting.used + 1, step)
        for nth in uses:
            test = FailureTest(Path(name, f"{nth}.db"), Failure(kind, nth, count))
            asyncio.run(test.run())
            refusals.update(test.refusals)
    print(f"{kind}, {count} in a row: {len(uses)} runs, refusals {dict(refusals)}")
    assert refusals or kind != "EIO"
