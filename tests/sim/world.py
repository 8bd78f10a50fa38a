"""The world around the fleet: machines, a disk, a clock, and a process that may die at any time.

The production engine, fleet and store run unchanged; the world only acts from outside.
"""

from collections.abc import Callable
from zlib import crc32

from fairwarning.core.commands import Approve, Command, Operate, Poll, SetOperation
from fairwarning.core.errors import (
    FairwarningError,
    InvariantViolated,
    NotFound,
    Refused,
    Unavailable,
)
from fairwarning.core.model import Impact, Operation
from fairwarning.machines.driver import Report
from fairwarning.service import failpoints
from fairwarning.service.batch import PendingCommand
from fairwarning.service.clock import VirtualClock
from fairwarning.service.documents import PublishedScope
from fairwarning.service.fleet import RETRY_SECONDS, Fleet
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch, Store
from tests.sim.invariants import il5_carried_out
from tests.sim.ledger import Ledger
from tests.sim.script import Action, Advance, Die, FillDisk, Read, Send, StopAndStart
from tests.sim.violations import Crash, Violation, must

START = 1_767_960_000.25  # not a whole second, so that rounding shows


class Disk:
    """What the store tells and is told from outside."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.refuse = 0
        self.trouble = False  # what was refused may not have been tried again yet

    def before(self) -> None:
        """A commit is about to be made."""
        if self.refuse:
            self.refuse -= 1
            self.trouble = True
            raise Unavailable("StoreFull", "the disk is full")


class WatchedMemoryStore(MemoryStore):
    """The memory store, watched."""

    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self.disk = disk

    async def commit(self, batch: Batch) -> float | None:
        """Commit, then let the ledger look."""
        self.disk.before()
        soonest = await super().commit(batch)
        self.disk.ledger.committed(batch)
        return soonest


class WatchedSQLiteStore(SQLiteStore):
    """The SQLite store, watched."""

    def __init__(self, path: str, disk: Disk) -> None:
        super().__init__(path)
        self.disk = disk

    async def commit(self, batch: Batch) -> float | None:
        """Commit, then let the ledger look."""
        self.disk.before()
        soonest = await super().commit(batch)
        self.disk.ledger.committed(batch)
        return soonest


class Machines:
    """The real machines: what was done to them survives any crash of the service.

    How long an impact takes and whether it works depends on its id alone, so a shrunken script
    plays out the same way.
    """

    def __init__(self, world: "World") -> None:
        self.world = world
        self.done: dict[str, str] = {}

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Act once; a repeat is told from the id."""
        luck = self.luck(impact.id)
        if self.world.calm or not self.silent(impact.id):
            seconds = (luck >> 8) % 240 / 4
            self.world.after(seconds, lambda: self._act(impact, luck, report))

    def luck(self, impact: str) -> int:
        """What chance has in store for an impact."""
        return crc32(f"{self.world.seed}/{impact}".encode())

    def silent(self, impact: str) -> bool:
        """Three in a hundred are never heard of again."""
        return self.luck(impact) % 100 < 3

    def _act(self, impact: Impact, luck: int, report: Report) -> None:
        if impact.id not in self.done:
            scope = self.world.ledger.scopes.get(impact.scope)
            standing = scope.impacts.get(impact.machine) if scope else None
            if standing is None or standing.id != impact.id:
                return  # given up by the service meanwhile; a driver would see that it is too late
            il5_carried_out(self.world.ledger, impact)
            self.done[impact.id] = "it would not boot" if luck % 10 == 0 else ""
        report(impact, self.done[impact.id])
        if luck % 7 == 0:
            report(impact, self.done[impact.id])  # and once more, as networks do


class World:
    """One simulation."""

    def __init__(self, seed: int, path: str = "") -> None:
        self.seed = seed
        self.calm = False
        self.ledger = Ledger()
        self.disk = Disk(self.ledger)
        self.machines = Machines(self)
        self.ledger.silent = self.machines.silent
        self.store: Store = (
            WatchedSQLiteStore(path, self.disk) if path else WatchedMemoryStore(self.disk)
        )
        self.now = START
        self.clock = VirtualClock(START)
        self.readers: dict[str, PublishedScope] = {}
        self.fleet = Fleet(self.store, self.clock, self.machines)
        self.life = 0
        self.stimuli = 0

    @property
    def steps(self) -> int:
        """Things that happened to the fleet: commands, reads, reports, timers, moves of time."""
        return self.stimuli + self.ledger.timers

    # --- Birth and death ---

    async def start(self) -> None:
        """A new process on the same disk, at the world's time."""
        self.life += 1
        self.ledger.up_since = self.now
        self.clock = VirtualClock(self.now)
        # A small cache now and then, so that entities are loaded again.
        cached = 4096 if self.life % 4 else 3
        self.readers.clear()
        self.fleet = Fleet(self.store, self.clock, self.machines, cached=cached)
        self.fleet.retry_later = lambda again: self.after(1.0, again)
        await self.fleet.open()
        self.clock.settled = self.fleet.process_queue
        await self.fleet.process_queue()

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call back by the present process's clock, unless that process dies before."""

        def happen() -> None:
            self.stimuli += 1
            call()

        self.clock.call_at(self.clock.now() + seconds, happen)

    async def _rebirth(self, down_seconds: float) -> None:
        failpoints.arm(None)
        self.now = max(self.now, self.clock.now()) + down_seconds
        await self.store.close()
        await self.start()

    # --- Acting ---

    async def act(self, action: Action) -> None:
        """Do one thing, and hold what follows against the invariants."""
        try:
            await self._act(action)
        except Crash as crash:
            await self._rebirth(crash.args[0])
        self.now = max(self.now, self.clock.now())
        if self.fleet.broken:
            raise Violation("IS4", f"the engine stopped writing: {self.fleet.broken!r}")

    async def _act(self, action: Action) -> None:
        self.stimuli += len(action.commands) if isinstance(action, Send) else 1
        match action:
            case Send():
                await self._send(action.commands)
            case Read():
                await self._read(action.scope, action.version)
            case Advance():
                await self.clock.advance(action.seconds)
                if action.seconds > RETRY_SECONDS and not self.disk.refuse:
                    self.disk.trouble = False
                if not self.disk.trouble:
                    self.ledger.settled(self.clock.now())
            case Die():
                self._die(action)
            case StopAndStart():
                for poll in self.fleet.polls.unwritten():
                    self.fleet.post(poll)
                await self.fleet.process_queue()
                await self._rebirth(1.0)
            case FillDisk():
                self.disk.refuse = action.commits

    def _die(self, action: Die) -> None:
        if not action.failpoint:
            raise Crash(action.down_seconds)

        def hook(name: str) -> None:
            if name == action.failpoint:
                raise Crash(action.down_seconds)

        failpoints.arm(hook)

    async def _send(self, commands: tuple[Command, ...]) -> None:
        waiting = [PendingCommand(command, None) for command in commands]
        alone = waiting[0] if len(waiting) == 1 else None
        commits = self.ledger.commits
        await self.fleet.process_batch(waiting)
        if alone and isinstance(alone.error, Refused):
            must(
                self.ledger.commits == commits,
                "IL8",
                f"{alone.command} was refused and yet something changed",
            )
        for one in waiting:
            self._answered(one.command, one.operation, one.error)
        await self.fleet.process_queue()

    def _answered(
        self, command: Command, operation: Operation | None, error: FairwarningError | None
    ) -> None:
        """What the caller now relies on."""
        if isinstance(error, InvariantViolated):
            raise Violation("IS4", str(error))
        if error is not None:
            return
        if isinstance(command, Approve):
            self.ledger.approved(command.scope, command.events)
        if isinstance(command, Operate | SetOperation):
            must(operation and operation.id == command.operation, "IC1", f"{command} has no answer")
            self.ledger.accepted.add(command.operation)

    async def _read(self, scope: str, version: str) -> None:
        try:
            published = await self.fleet.documents.fetch(scope)
            self.readers[scope] = published  # as a machine that is connected holds on to it
        except NotFound:
            must(scope not in self.ledger.scopes, "IL11", f"{scope} exists but cannot be read")
            return
        if published.scope and published.scope.enabled:
            self.fleet.polls.seen(published.scope, self.clock.now())
        else:
            await self.fleet.process_batch(
                [PendingCommand(Poll(scope=scope, actor="machine"), None)]
            )
            if not published.incarnation:
                return  # the disk was full
        self.ledger.read(scope, version, published.body(version))
        await self.fleet.process_queue()
