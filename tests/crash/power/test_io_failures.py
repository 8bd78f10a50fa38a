"""P6: the n-th use of a file fails, for every n."""

import asyncio
import sys
from collections import Counter
from pathlib import Path

import pytest

from fairwarning.core.errors import Unavailable
from fairwarning.store import sqlite
from fairwarning.store.store import Store
from tests.crash.power.failing import KINDS, FailingVFS, Trouble
from tests.crash.power.workload import (
    SHORT_LOG,
    Day,
    differs,
    number_of,
    scratch,
    small_store,
)

BATCHES = 5


class Life:
    """A short day on a disk in trouble."""

    def __init__(self, path: Path, trouble: Trouble) -> None:
        self.path = path
        self.trouble = trouble
        self.day = Day(seed=2)
        self.refusals: Counter[str] = Counter()

    async def live(self) -> None:
        """Open, commit, close; what is refused is refused clearly, and works when tried again."""
        vfs = FailingVFS(f"failing-{id(self)}", self.trouble)
        store = small_store(self.path, vfs.name)
        try:
            while not await self._opens(store):
                pass
            for _ in range(BATCHES):
                while not await self._commits(store):
                    pass
            await store.close()
        finally:
            vfs.unregister()
        store = small_store(self.path)
        await store.open()
        assert await differs(store, self.day.state(), set()) == ""
        await store.close()

    async def _opens(self, store: Store) -> bool:
        try:
            await store.open()
        except Unavailable as error:
            self._count(error)
            return False
        return True

    async def _commits(self, store: Store) -> bool:
        undo = self.day.saved()
        try:
            await store.commit(self.day.batch(3))
        except Unavailable as error:
            self._count(error)
        else:
            return True
        self.trouble.off = True
        if await number_of(store) == self.day.number:
            assert self.trouble.lasts > 1, "what was refused has taken effect"
        else:
            undo()
        assert await differs(store, self.day.state(), set()) == ""
        self.trouble.off = False
        return False

    def _count(self, error: Unavailable) -> None:
        self.refusals[error.code] += 1
        assert self.refusals.total() <= self.trouble.lasts, "it does not recover"
        assert error.code in {"StoreFailed", "StoreFull"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lasts", [1, 25])
def test_the_nth_use_of_a_file_fails(
    kind: str, lasts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clear errors, nothing acknowledged lost, and when the trouble is over everything works.

    A single failure is also sure to undo what it refuses; one that lasts may hide what was done.
    """
    monkeypatch.setattr(sqlite, "_LOG_PAGES", SHORT_LOG)
    # Where SQLite itself passes over an error, as in a rollback, apsw can only tell this hook.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    calm = Trouble(kind)
    refusals: Counter[str] = Counter()
    with scratch() as name:
        asyncio.run(Life(Path(name, "calm.db"), calm).live())
        steps = range(1, calm.used + 1, 1 if lasts == 1 else 7)
        for nth in steps:
            life = Life(Path(name, f"{nth}.db"), Trouble(kind, nth, lasts))
            asyncio.run(life.live())
            refusals.update(life.refusals)
    print(f"{kind}, {lasts} in a row: {len(steps)} lives, refusals {dict(refusals)}")
    assert refusals or kind != "EIO"
