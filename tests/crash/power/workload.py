"""A random workload of batches, and the expected state after each."""

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
from tests.crash.power.failing import Adapter
from tests.store.batch_generator import BatchGenerator


@dataclass(frozen=True)
class State:
    """The expected content of a store after a batch."""

    number: int
    entities: dict[Ref, Entity]
    lines: list[JournalLine]
    impacts: dict[str, Impact]

    def incarnation(self, ref: Ref) -> int:
        """Return the incarnation of a scope; 0 if it does not exist."""
        scope = self.entities.get(ref)
        return scope.incarnation if isinstance(scope, Scope) else 0


class Workload:
    """Random batches, each with a note of its number."""

    def __init__(self, seed: int) -> None:
        self._generator = BatchGenerator(seed)
        self.number = 0

    def batch(self, size: int) -> Batch:
        self.number += 1
        generator = self._generator
        generator.now += 60.0
        commands = [generator.random_command() for _ in range(size)]
        return generator.batch(commands, batch=str(self.number))

    def state(self) -> State:
        generator = self._generator
        return State(
            self.number, dict(generator.entities), list(generator.lines), dict(generator.impacts)
        )

    def saved(self) -> Callable[[], None]:
        """Return a function that undoes the batches from now on."""
        restore, number = self._generator.saved(), self.number

        def undo() -> None:
            restore()
            self.number = number

        return undo


async def number_of(store: Store) -> int:
    """Return the number of the last batch."""
    return int(await store.get_note("batch") or 0)


async def differs(store: Store, state: State, absent: set[Ref]) -> str:
    """Return what differs from the state, or nothing. Entities in `absent` must not exist."""
    loaded = await store.load([*state.entities, *absent])
    wrong = [ref for ref, entity in loaded.items() if entity != state.entities.get(ref)]
    if wrong:
        return f"entities {wrong}"
    if [entry.line for entry in await store.journal(limit=100_000)] != state.lines:
        return "journal"
    impacts = await store.unfinished_impacts("", 100_000)
    if {impact.id: impact for impact in impacts} != state.impacts:
        return "impacts"
    times = [due for entity in state.entities.values() if (due := cascade.due(entity)) is not None]
    if await store.next_due() != min(times, default=None):
        return "due times"
    return "" if await store._read(_is_sound) else "integrity"  # type: ignore[attr-defined]


def _is_sound(connection: SqliteConnection) -> bool:
    return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def small_store(path: Path, vfs: str = "") -> SQLiteStore:
    """Return a store with almost no reserved space, on apsw with a VFS if one is given."""
    if not vfs:
        return SQLiteStore(path, reserved_bytes=1)
    return SQLiteStore(path, reserved_bytes=1, connect=lambda path: Adapter(path, vfs))


def scratch() -> "TemporaryDirectory[str]":
    """Return a temporary folder in memory if possible, as durability does not matter here."""
    memory = Path("/dev/shm")
    return TemporaryDirectory(dir=memory if memory.is_dir() else None)


SHORT_LOG = 40
"""Pages, instead of hundreds, so that a short workload has many checkpoints."""

assert sqlite._LOG_PAGES > SHORT_LOG
