"""A fleet's day, batch by batch, and what must be found of it afterwards."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from fairwarning.core import cascade
from fairwarning.core.cascade import JournalLine
from fairwarning.core.model import Entity, Impact, Ref, Scope
from fairwarning.store import sqlite
from fairwarning.store.files import SqliteConnection
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch, Store
from tests.crash.power.library import Adapter
from tests.store.author import Author


@dataclass(frozen=True)
class State:
    """Everything a store should hold after a batch."""

    number: int
    entities: dict[Ref, Entity]
    lines: list[JournalLine]
    impacts: dict[str, Impact]

    def incarnation(self, ref: Ref) -> int:
        """Of a scope; 0 for what is none."""
        scope = self.entities.get(ref)
        return scope.incarnation if isinstance(scope, Scope) else 0


class Day:
    """Batches as chance has them, each with a note of its number."""

    def __init__(self, seed: int) -> None:
        self._author = Author(seed)
        self.number = 0

    def batch(self, size: int) -> Batch:
        """The next one."""
        self.number += 1
        author = self._author
        author.now += 60.0
        commands = [author.random_command() for _ in range(size)]
        return author.batch(commands, batch=str(self.number))

    def state(self) -> State:
        """What should be there now."""
        author = self._author
        return State(self.number, dict(author.entities), list(author.lines), dict(author.impacts))

    def saved(self) -> Callable[[], None]:
        """Call what this returns to undo the batches since: they never were."""
        restore, number = self._author.saved(), self.number

        def undo() -> None:
            restore()
            self.number = number

        return undo


async def number_of(store: Store) -> int:
    """Which batch was the last."""
    return int(await store.get_note("batch") or 0)


async def differs(store: Store, state: State, others: set[Ref]) -> str:
    """What in the store is not as in the state; nothing if all is. `others` must not be there."""
    loaded = await store.load([*state.entities, *others])
    wrong = [ref for ref, entity in loaded.items() if entity != state.entities.get(ref)]
    if wrong:
        return f"entities {wrong}"
    if [entry.line for entry in await store.journal(limit=100_000)] != state.lines:
        return "journal"
    if {one.id: one for one in await store.unfinished_impacts("", 100_000)} != state.impacts:
        return "impacts"
    times = [due for entity in state.entities.values() if (due := cascade.due(entity)) is not None]
    if await store.next_due() != min(times, default=None):
        return "due times"
    return "" if await store._read(_sound) else "integrity"  # type: ignore[attr-defined]


def _sound(connection: SqliteConnection) -> bool:
    return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def small_store(path: Path, vfs: str = "") -> SQLiteStore:
    """A store with next to no ballast, on apsw's SQLite and a VFS if one is named."""
    if not vfs:
        return SQLiteStore(path, reserved_bytes=1)
    return SQLiteStore(path, reserved_bytes=1, connect=lambda path: Adapter(path, vfs))


def scratch() -> "TemporaryDirectory[str]":
    """A folder in memory, if there is one: how durable thousands of trials are is no matter."""
    memory = Path("/dev/shm")
    return TemporaryDirectory(dir=memory if memory.is_dir() else None)


SHORT_LOG = 40
"""Pages, instead of the usual hundreds: so that a short day sees many checkpoints."""

assert sqlite._LOG_PAGES > SHORT_LOG
