"""The environment of the fleet: machines, a disk, a clock, and a process that may be killed.

The production engine, fleet and store run unchanged; the simulation only acts from outside.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any
from zlib import crc32

from fairwarning.core.commands import Approve, Command, DropOperation, Operate, Poll, SetOperation
from fairwarning.core.errors import (
    FairwarningError,
    NotFound,
    Refused,
    StoreDamaged,
    Unavailable,
)
from fairwarning.core.limits import POLL_RECORD_SECONDS
from fairwarning.core.model import Impact, Operation
from fairwarning.core.record import changed
from fairwarning.machines.driver import Report
from fairwarning.service import failpoints
from fairwarning.service.approvals import without_ended
from fairwarning.service.documents import PublishedScope
from fairwarning.service.fleet import Fleet
from fairwarning.service.retention import next_drops
from fairwarning.service.writer.batch import PendingCommand
from fairwarning.service.writer.command_writer import RETRY_SECONDS
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch, Store
from tests.sim.host import SimulatedHost, SimulatedRealClock
from tests.sim.invariants import il5_carried_out, m12
from tests.sim.observed_state import KEEP_SECONDS
from tests.sim.observer import Observer
from tests.sim.random_actions import (
    Action,
    Advance,
    DropOld,
    FillDisk,
    Kill,
    Read,
    Send,
    StepWall,
    StopAndStart,
)
from tests.sim.retention import check_look_ups
from tests.sim.violations import Crash, Violation, must

START = 1_767_960_000.25  # not a whole second, to detect rounding errors


class Disk:
    """Makes commits fail, and passes the others to the observer."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.refuse = 0
        self.refused = 0
        self.trouble = False  # refused commits may not have been retried yet

    def before(self) -> None:
        """Refuse the commit if the disk is full."""
        if self.refuse:
            self.refuse -= 1
            self.refused += 1
            self.trouble = True
            raise Unavailable("StoreFull", "the disk is full")


def observed_store(kind: type[Any], disk: Disk, *arguments: object) -> Store:
    """Return a store of this kind whose commits fail on a full disk, or are observed."""

    class ObservedStore(kind):  # type: ignore[misc]
        async def commit(self, batch: Batch) -> float | None:
            disk.before()
            next_due: float | None = await super().commit(batch)
            disk.observer.committed(batch)
            return next_due

        async def record_polls(self, polls: Mapping[str, float]) -> None:
            disk.before()
            await super().record_polls(polls)

    store: Store = ObservedStore(*arguments)
    return store


class Machines:
    """The machines: their impacts survive any crash of the service.

    The duration and outcome of an impact depend only on its id, so a shrunk script behaves the
    same.
    """

    def __init__(self, simulation: "Simulation") -> None:
        self.simulation = simulation
        self.done: dict[str, str] = {}

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Carry out an impact once; recognize repeats by the id."""
        hash_of = self.hash_of(impact.id)
        seconds = (hash_of >> 8) % 240 / 4
        if self.late(impact.id) and not self.simulation.faults_stopped:
            if self.silent(impact.id):
                return
            seconds += impact.limit_seconds + (hash_of >> 16) % 20 * 60
        self.simulation.after(seconds, lambda: self._act(impact, hash_of, report))

    def hash_of(self, impact: str) -> int:
        """A hash that determines the duration and outcome of an impact."""
        return crc32(f"{self.simulation.seed}/{impact}".encode())

    def silent(self, impact: str) -> bool:
        """Whether an impact is never reported: three in a hundred."""
        return self.hash_of(impact) % 100 < 3

    def late(self, impact: str) -> bool:
        """Whether an impact is not reported within its limit: six in a hundred."""
        return self.hash_of(impact) % 100 < 6

    def _act(self, impact: Impact, hash_of: int, report: Report) -> None:
        if impact.id not in self.done:
            scope = self.simulation.observer.scopes.get(impact.scope)
            if scope is None or impact.machine not in scope.machines:
                return  # there is no such machine any more
            il5_carried_out(self.simulation.observer, impact)
            self.done[impact.id] = "the machine did not boot" if hash_of % 10 == 0 else ""
        report(impact, self.done[impact.id])
        if not self.done[impact.id]:
            self.simulation.observer.reported[impact.id] = (impact, self.simulation.clock.now())
        if hash_of % 7 == 0:
            report(impact, self.done[impact.id])  # a duplicate, as networks deliver


class Simulation:
    """One simulation."""

    def __init__(self, seed: int, path: str = "") -> None:
        self.seed = seed
        self.faults_stopped = False
        self.observer = Observer()
        self.disk = Disk(self.observer)
        self.machines = Machines(self)
        self.observer.late = self.machines.late
        self.store = (
            observed_store(SQLiteStore, self.disk, path)
            if path
            else observed_store(MemoryStore, self.disk)
        )
        self.host = SimulatedHost(START)
        self.observer.true_time = lambda: self.host.now
        self.observer.wall_time = self.host.wall
        self.clock = SimulatedRealClock(self.host)
        self.readers: dict[str, PublishedScope] = {}
        self.fleet = Fleet(self.store, self.clock, self.machines)
        self.restarts = 0
        self.seen = 0  # the position of the change feed at the last retention
        self.stimuli = 0

    @property
    def steps(self) -> int:
        """The number of stimuli: commands, reads, reports, timers and advances of time."""
        return self.stimuli + self.observer.timers

    # --- Start and restart ---

    async def start(self) -> None:
        """Start a new process on the same disk and the same host."""
        self.restarts += 1
        self.observer.reported.clear()
        self.clock = SimulatedRealClock(self.host)
        # Sometimes use a small cache, so that entities are loaded again.
        cached = 4096 if self.restarts % 4 else 3
        self.readers.clear()
        self.fleet = Fleet(self.store, self.clock, self.machines, cached=cached)
        self.fleet.new_secret = lambda: f"secret {self.seed}"
        self.fleet.writer.retry_later = self.after
        await self.fleet.open()
        # The driver has just got every unfinished impact again. A reboot may have set fleet time
        # back since the impact began.
        again = dict.fromkeys(self.observer.with_driver_since, self.clock.now())
        self.observer.with_driver_since = again
        self.clock.settled = self.fleet.writer.process_queue
        await self.fleet.writer.process_queue()

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Call back by the current process's clock, unless that process is killed before."""

        def counted() -> None:
            self.stimuli += 1
            call()

        self.clock.call_at(self.clock.now() + seconds, counted)

    def _lose_polls(self) -> None:
        """A killed process loses the polls that it has not recorded yet."""
        for scope, (polled_at, idle) in list(self.observer.polled.items()):
            lost = min(POLL_RECORD_SECONDS, idle / 4)
            if polled_at >= self.clock.now() - lost:  # the one before it may be much older
                del self.observer.polled[scope]
            else:
                self.observer.polled[scope] = (polled_at - lost, idle)
        if self.disk.trouble:  # it could not record them for longer
            self.observer.polled.clear()

    async def _restart(self, kill: Kill) -> None:
        failpoints.arm(None)
        self.host.now += kill.down_seconds
        if kill.reboot:
            self.host.reboot()
            if kill.step_seconds is not None:
                self.host.step(kill.step_seconds)
        await self.store.close()
        await self.start()

    # --- Actions ---

    async def act(self, action: Action) -> None:
        """Perform an action, and check the invariants."""
        try:
            await self._act(action)
        except Crash as crash:
            self._lose_polls()
            await self._restart(crash.args[0])
        self._check_writing()

    def _check_writing(self) -> None:
        """Check that no decision met a bug, and that writes have not stopped."""
        if bugs := self.fleet.set_aside.all():
            raise Violation("IB2", f"{bugs[0].id} is set aside: {bugs[0].reason}")
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
                await self._advance(action.seconds)
            case Kill():
                self._kill(action)
            case StopAndStart():
                self.fleet.polls.record_all()
                await self.fleet.writer.process_queue()
                if self.disk.trouble:
                    self._lose_polls()
                await self._restart(Kill("", 1.0))
            case FillDisk():
                self.disk.refuse = action.commits
            case StepWall():
                self.host.step(action.seconds)
            case DropOld():
                await self._drop_old()

    async def _advance(self, seconds: float) -> None:
        refused = self.disk.refused
        await self.fleet.compare_clocks()
        await self.clock.advance(seconds)
        await self.fleet.compare_clocks()
        await self.clock.advance(0.0)  # what a jump of fleet time has made due
        if seconds > RETRY_SECONDS and self.disk.refused == refused:
            self.disk.trouble = False
        self._check_writing()  # before the work that a stopped engine cannot have done
        if not self.disk.trouble:
            self.observer.settled(self.clock.now())

    async def _drop_old(self) -> None:
        """Do one part of each task of `Retention`, in the turn of the writer."""
        before = self.clock.now() - KEEP_SECONDS
        drops = await next_drops(self.store, before)
        # With futures: what fails on a full disk is not retried, as in `Retention`.
        loop = asyncio.get_running_loop()
        batch = [PendingCommand(drop, loop.create_future()) for drop in drops]
        try:
            await self.fleet.writer.process_batch(batch)
        finally:  # a crash too: an error that nobody looks at would be printed
            for pending in batch:
                if pending.future and pending.future.done():
                    pending.future.exception()
        dropped = [drop.operation for drop in drops if isinstance(drop, DropOperation)]
        await check_look_ups(self.observer, self.fleet.reader, dropped)
        self.observer.dropped_before = max(self.observer.dropped_before, before)
        await self.store.drop_old_lines(before)
        await self.store.drop_tombstones(self.seen)
        self.seen = await self.store.position()

    def _kill(self, action: Kill) -> None:
        if not action.failpoint:
            raise Crash(action)

        def hook(name: str) -> None:
            if name == action.failpoint:
                raise Crash(action)

        failpoints.arm(hook)

    async def _send(self, commands: tuple[Command, ...]) -> None:
        batch = [PendingCommand(command, None) for command in commands]
        single = batch[0] if len(batch) == 1 else None
        commits = self.observer.commits
        await self.fleet.writer.process_batch(batch)
        # After trouble, work that is due may be committed with it.
        if single and isinstance(single.error, Refused) and not self.disk.trouble:
            unchanged = self.observer.commits == commits
            must(unchanged, "IL8", f"{single.command} was refused, but something was committed")
        for pending in batch:
            if isinstance(pending.command, Approve):
                await self._approve_ended(pending)
            self._record_answer(pending.command, pending.operation, pending.error)
        await self.fleet.writer.process_queue()

    async def _approve_ended(self, pending: PendingCommand) -> None:
        """Accept an approval of events that have just ended, as the endpoint does."""
        command = pending.command
        assert isinstance(command, Approve)
        if pending.error is None or pending.error.code != "UnknownEvent":
            return
        live = await without_ended(self.fleet, command)
        if live is not None and len(live) < len(command.events):
            rest = PendingCommand(changed(command, events=live), None)
            if live:
                await self.fleet.writer.process_batch([rest])
            pending.error = rest.error

    def _record_answer(
        self, command: Command, operation: Operation | None, error: FairwarningError | None
    ) -> None:
        """Record what the caller may now rely on."""
        if isinstance(error, StoreDamaged):
            raise Violation("IS4", str(error))
        if error is not None:
            if isinstance(command, Approve) and error.code == "UnknownEvent":
                m12(self.observer, command.scope, command.events, self.clock.now())
            return
        if isinstance(command, Approve):
            self.observer.approved(command.scope, command.events)
        if isinstance(command, Operate | SetOperation):
            must(operation and operation.id == command.operation, "IC1", f"{command} has no answer")
            self.observer.accepted.add(command.operation)
            first = self.observer.requests.setdefault(command.operation, command)
            same_target = getattr(first, first.target) == getattr(command, command.target)
            repeats = type(first) is type(command) and same_target
            must(repeats, "IC2", f"{command} was answered with the operation of {first}")

    async def _read(self, scope: str, version: str) -> None:
        try:
            published = await self.fleet.documents.fetch(scope)
            self.readers[scope] = published  # as a connected machine holds it
        except NotFound:
            must(scope not in self.observer.scopes, "IL11", f"{scope} exists but cannot be read")
            return
        if published.scope and published.scope.enabled:
            now = self.clock.now()
            self.fleet.polls.record(published.scope, now)
            self.observer.polled[scope] = (now, published.scope.rules.idle_seconds)
        else:
            await self.fleet.writer.process_batch(
                [PendingCommand(Poll(scope=scope, actor="machine"), None)]
            )
            if not published.incarnation:
                return  # the disk was full
        self.observer.read(scope, version, published.body(version))
        await self.fleet.writer.process_queue()
