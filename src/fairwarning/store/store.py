"""What a store promises. Three keep it: memory, SQLite, PostgreSQL.

A store keeps entities by kind and id, each with a version; the machines of a scope can be found by
name and address; impacts under way; the journal; and which scopes changed, in order. One commit is
one transaction: all of a batch or none of it, durable when `commit` returns.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fairwarning.core.cascade import JournalLine
from fairwarning.core.model import Entity, Impact, Machine, Ref


@dataclass(frozen=True, slots=True)
class Batch:
    """What is committed together. `changes` maps each entity to its value before and after."""

    at: float
    changes: Mapping[Ref, tuple[Entity | None, Entity | None]] = field(default_factory=dict)
    lines: Sequence[JournalLine] = ()
    impacts: Sequence[Impact] = ()  # begun
    settled: Sequence[str] = ()  # ids of impacts that are over
    notes: Mapping[str, str] = field(default_factory=dict)  # small values kept beside, by name
    read: Mapping[Ref, Entity | None] = field(default_factory=dict)
    """What was decided on and stays as it is; a shared store makes sure that it has stayed so."""


@dataclass(frozen=True, slots=True)
class MachineLocation:
    """Where a machine is, and the number it was given when it came: its alone for ever."""

    number: int
    scope: str
    machine: Machine


@dataclass(frozen=True, slots=True)
class ScopeChange:
    """A scope's newest change. Positions only grow; a scope appears once, at its newest."""

    position: int
    scope: str


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A journal line with its number."""

    number: int
    line: JournalLine


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """How far a store is that several processes share."""

    asked: float  # when, by `time.monotonic`: nothing older than that was told
    position: int  # the last of the change feed
    line: int  # the last of the journal
    due: float | None  # as `next_due`
    loose: bool  # whether `unfinished` has something for us


class SharedStore(Protocol):
    """What a store can do that several processes use at once."""

    def heartbeats(self) -> AsyncIterator[Heartbeat]:
        """Beats for ever: one at once when somebody commits, and one a second or so.

        Raises `Unavailable` when the store cannot be reached; then begin again.
        """

    async def time(self) -> float:
        """The store's clock: seconds since the epoch."""

    async def retire(self) -> None:
        """Leave timers, impacts and duties to the others from now on."""


class Store(Protocol):
    """Where a fleet is kept. Methods raise `Unavailable` when they cannot be served just now."""

    @property
    def shared(self) -> SharedStore | None:
        """Whether other processes may have the store open too: then what is loaded may be old."""

    async def open(self) -> None:
        """Make ready; raises `Unavailable` when another process has the data."""

    async def close(self) -> None:
        """Let go of everything; a closed store may be opened again."""

    async def load(self, refs: Iterable[Ref]) -> dict[Ref, Entity | None]:
        """These entities, whole; None for those that do not exist."""

    async def commit(self, batch: Batch) -> float | None:
        """Make the batch durable, all or nothing; the earliest due time of all entities after it.

        Raises `Conflict("Stale")` when an entity's stored version is not the one in `before`
        (IK1), `Conflict("AddressTaken")` when a machine's address is another's; nothing is changed.
        """

    async def due_entities(self, now: float, limit: int) -> list[Ref]:
        """Entities whose due time is `now` or earlier, the longest due first.

        A shared store gives each to one process only, until it is written or that process is gone.
        """

    async def next_due(self) -> float | None:
        """The earliest due time of all entities, but for those that another process was given."""

    async def find_machines(
        self, *, name: str = "", address: str = "", number: int = 0, scope: str = ""
    ) -> list[MachineLocation]:
        """Machines of this name (several scopes may have one), address, number or scope."""

    async def list_machines(self, after: int, limit: int) -> list[MachineLocation]:
        """Machines in order of their numbers, from the first past `after`."""

    async def list_ids(self, kind: type[Entity], after: str, limit: int) -> list[str]:
        """Ids of entities of a kind, in order, from the first past `after`."""

    async def scopes_with_events(self, after: str, limit: int) -> list[str]:
        """Ids of scopes that have events, in order, from the first past `after`."""

    async def unfinished_impacts(self, after: str, limit: int) -> list[Impact]:
        """Impacts begun and not settled, in order of id, from the first past `after`.

        A shared store gives those of this process, and from now on those that nobody has any more.
        """

    async def changes_since(self, after: int, limit: int) -> list[ScopeChange]:
        """The change feed: scopes that changed past a position, in order."""

    async def journal(
        self, *, after: int = 0, limit: int = 1000, entity: Ref | None = None, event: str = ""
    ) -> list[JournalEntry]:
        """Journal lines in order, from the first past `after`; of one entity or event if given."""

    async def operation_lines(
        self, operation: str, *, after: int, before: int, limit: int
    ) -> list[JournalEntry]:
        """Journal lines of an operation between two numbers, in order."""

    async def latest_lines(
        self, limit: int, *, before: int | None = None, entity: Ref | None = None
    ) -> list[JournalEntry]:
        """The newest lines, the newest first; of one entity if given.

        From the first before a number, if given: with an entity, that of one of its lines.
        """

    async def drop_old_lines(self, before: float) -> int:
        """Drop some of the journal's oldest lines, if they are older than that; how many.

        Ask again until it is 0. A store may drop a part of the journal only when all of it is old.
        """

    async def get_note(self, name: str) -> str | None:
        """A small value kept beside the fleet."""

    async def add_note_if_absent(self, name: str, value: str) -> str:
        """The note of this name; this value if there was none yet."""

    async def claim_duty(self, duty: str) -> bool:
        """Whether it falls to this process; once it does, for as long as the process is alive."""
