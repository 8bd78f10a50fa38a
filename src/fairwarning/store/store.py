"""The `Store` protocol. It has three implementations: memory, SQLite and PostgreSQL.

A store holds entities by kind and id, each with a version; an index of machines by name and
address; unfinished impacts; the journal; and a feed of changed scopes. One commit is one
transaction: it writes the whole batch or nothing, and the batch is durable when `commit` returns.
"""

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from fairwarning.core.cascade import JournalLine
from fairwarning.core.model import Entity, Impact, Machine, Ref
from fairwarning.core.record import short_record

LAST_CHARACTER = "\U0010ffff"
"""Sorts after any other: names that begin with a prefix sort before prefix + LAST_CHARACTER."""


@short_record
class Batch:
    """One unit of work. `changes` maps each entity to its value before and after."""

    at: float
    changes: Mapping[Ref, tuple[Entity | None, Entity | None]] = field(default_factory=dict)
    lines: Sequence[JournalLine] = ()
    impacts: Sequence[Impact] = ()  # started
    settled: Sequence[str] = ()  # ids of finished impacts
    notes: Mapping[str, str] = field(default_factory=dict)  # small named values outside entities
    read: Mapping[Ref, Entity | None] = field(default_factory=dict)
    """Entities read but not changed; a shared store rejects the batch if their versions differ."""


@short_record
class MachineLocation:
    """A machine, its scope, and its number, which is assigned once and never reused."""

    number: int
    scope: str
    machine: Machine


@short_record
class ScopeChange:
    """The latest change of a scope. Positions only increase; each scope appears once."""

    position: int
    scope: str


@short_record
class JournalEntry:
    """A journal line with its number."""

    number: int
    line: JournalLine


@short_record
class ClockReading:
    """The time that all processes share: `elapsed_time` plus an offset between two bounds."""

    least: float
    most: float
    ahead: float  # of the clock it comes from, which was stepped
    at: float  # by `elapsed_time`


@short_record
class Heartbeat:
    """The state of a shared store at one moment."""

    read_at: float  # `time.monotonic` before the query: the state is at least this recent
    position: int  # last position of the change feed
    line: int  # last number of the journal
    due: float | None  # as returned by `next_due`
    orphaned_impacts: bool  # whether `unfinished_impacts` has impacts for this process to take over
    dropped: int = 0  # `changes_since` may no longer return removals up to this position
    clock: ClockReading | None = None  # about once a second
    epoch: int = 0
    """Changes when another server has taken over, which may lack commits: what a process remembers
    by position or version may be wrong. It reads everything again, then calls `enter_epoch`."""


class SharedStore(Protocol):
    """Operations of a store that several processes use at once."""

    def heartbeats(self) -> AsyncIterator[Heartbeat]:
        """Yield heartbeats without end: one after every commit, and about one per second.

        Raises `Unavailable` when the store is unreachable; call it again to resume.
        """

    async def read_clock(self) -> ClockReading:
        """Return the time that all processes share, when this process starts.

        Raises `Unavailable` if the time cannot be told precisely enough for a while (IK4).
        """

    def enter_epoch(self, epoch: int) -> None:
        """Accept commits again: they are based on what was read in this epoch."""

    async def retire(self) -> None:
        """Release timers, impacts and duties to other processes, and claim none from now on."""


class Store(Protocol):
    """Storage of a fleet. Methods raise `Unavailable` when the store cannot serve them now."""

    @property
    def shared(self) -> SharedStore | None:
        """Shared operations if other processes may use the store; loads may then be stale."""

    async def open(self) -> None:
        """Open the store; raises `Unavailable` when another process holds the data."""

    async def close(self) -> None:
        """Release all resources; a closed store can be opened again."""

    async def load(self, refs: Iterable[Ref]) -> dict[Ref, Entity | None]:
        """Return these entities complete; None for those that do not exist."""

    async def commit(self, batch: Batch) -> float | None:
        """Make the whole batch durable or none of it; return the earliest due time afterwards.

        Raises `Conflict("Stale")` when an entity's stored version differs from the one in `before`
        (IK1), and `Conflict("AddressTaken")` when another machine has a machine's address. Nothing
        is changed then.
        """

    async def due_entities(self, now: float, limit: int) -> list[Ref]:
        """Return entities whose due time is `now` or earlier, the longest overdue first.

        A shared store gives each entity to one process only, until the entity is written or that
        process ends.
        """

    async def next_due(self) -> float | None:
        """Return the earliest due time, ignoring entities that another process has claimed."""

    async def find_machines(self, *, name: str = "", scope: str = "") -> list[MachineLocation]:
        """Return machines by name (several scopes may have it) or scope."""

    async def locate_machines(self, keys: Sequence[int | str]) -> dict[int | str, MachineLocation]:
        """Return machines by their numbers and addresses, without those that do not exist."""

    async def list_machines(self, after: int, limit: int) -> list[MachineLocation]:
        """Return machines in order of number, starting after `after`."""

    async def list_ids(self, kind: type[Entity], after: str, limit: int) -> list[str]:
        """Return ids of entities of a kind, in order, starting after `after`."""

    async def scopes_with_events(self, after: str, limit: int) -> list[str]:
        """Return ids of scopes that have events, in order, starting after `after`."""

    async def unfinished_impacts(self, after: str, limit: int) -> list[Impact]:
        """Return impacts that started and are not settled, in order of id, starting after `after`.

        A shared store returns those of this process and claims those whose process has ended.
        """

    async def changes_since(self, after: int, limit: int) -> list[ScopeChange]:
        """Return scopes that changed after a position of the change feed, in order."""

    async def journal(
        self, *, after: int = 0, limit: int = 1000, entity: Ref | None = None, event: str = ""
    ) -> list[JournalEntry]:
        """Return journal lines after `after`, in order; optionally of one entity or event."""

    async def operation_lines(
        self, operation: str, *, after: int, before: int, limit: int
    ) -> list[JournalEntry]:
        """Return journal lines of an operation between two numbers, in order."""

    async def latest_lines(
        self, limit: int, *, before: int | None = None, entity: Ref | None = None
    ) -> list[JournalEntry]:
        """Return the newest lines, newest first; optionally of one entity.

        With `before`, start below that number. With an entity too, it must be one of its lines.
        """

    async def position(self) -> int:
        """Return the last position of the change feed."""

    async def record_polls(self, polls: Mapping[str, float]) -> None:
        """Record when scopes were polled, outside the entities; an earlier time changes nothing."""

    async def recorded_polls(self, scopes: Iterable[str]) -> dict[str, float]:
        """Return the recorded polls of these scopes; those without one are left out."""

    async def get_note(self, name: str) -> str | None:
        """Return a small named value stored outside the entities."""

    async def add_note_if_absent(self, name: str, value: str) -> str:
        """Return the note of this name, after storing this value if there was none."""

    async def list_notes(self, prefix: str, after: str, limit: int) -> dict[str, str]:
        """Return notes whose names begin with `prefix`, by name, starting after `after`."""

    async def save_notes(self, notes: Mapping[str, tuple[str, str]]) -> set[str]:
        """Store notes by name, each with its duty and its value, outside any batch.

        A shared store stores those whose duty this process has. Return their names.
        """

    async def claim_duty(self, duty: str) -> bool:
        """Return whether this process has the duty; it then keeps it for as long as it runs.

        In a new epoch no process has it: each claims it again, and begins with what is stored.
        """

    async def has_duty(self, duty: str) -> bool:
        """Return whether this process has the duty, without claiming it."""

    async def ended_entities(self, before: float, limit: int) -> list[Ref]:
        """Return operations and rollouts that ended before a time, the earliest first.

        Of those that ended at the same time, operations come first.
        """

    async def drop_old_lines(self, before: float) -> int:
        """Drop some of the journal's oldest lines from before a time, and return how many.

        Call it until it returns 0. A store may only drop a section once all of its lines are old.
        Raises `Unavailable("JournalInUse")` if commits would have to wait for a long read.
        """

    async def drop_tombstones(self, until: int) -> int:
        """Drop what is left of some entities removed up to a position; return how many.

        Call it until it returns 0. `changes_since` no longer returns these removals. A store may
        keep entities that have journal lines.
        """

    async def drop_notes(self, notes: Mapping[str, str]) -> None:
        """Drop these notes, unless their values have changed."""
