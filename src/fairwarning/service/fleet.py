"""The entry point for commands: decide -> commit -> publish -> carry out -> acknowledge.

One writer task takes the queued commands, decides them in order and commits them as one
transaction. This is the only lock, and it gives group commit. Durable before visible, visible
before impact, acknowledged only when durable.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress

from fairwarning.core.commands import (
    AdvanceTime,
    Command,
    Poll,
    ReportImpact,
    RetryLane,
    validate,
)
from fairwarning.core.errors import (
    Conflict,
    FairwarningError,
    InvariantViolated,
    Refused,
    Unavailable,
)
from fairwarning.core.model import Operation, Scope
from fairwarning.machines.driver import Driver
from fairwarning.service import failpoints
from fairwarning.service.batch import CommandBatch, PendingCommand
from fairwarning.service.clock import Clock, VirtualClock
from fairwarning.service.clock_monitor import ClockMonitor
from fairwarning.service.committer import CACHED_ENTITIES, Committer, target
from fairwarning.service.deliveries import DeliveryLog
from fairwarning.service.documents import DocumentCache, PublishedScope
from fairwarning.service.due_work import DueWork
from fairwarning.service.faults import FaultRules
from fairwarning.service.following import ChangeFollower
from fairwarning.service.impacts import ImpactDispatcher
from fairwarning.service.metrics import Metric, counter, gauge
from fairwarning.service.polls import PollLog
from fairwarning.service.publisher import Publisher
from fairwarning.service.reader import FleetReader
from fairwarning.service.snapshot_monitor import SnapshotMonitor
from fairwarning.service.store_check import StoreCheck
from fairwarning.service.timers import Timers
from fairwarning.store.store import ClockReading, Store

log = logging.getLogger(__name__)

BATCH_COMMANDS = 256  # per transaction at most
RETRY_SECONDS = 1.0  # of real time, until a command without a caller is retried
_COMPARE_SECONDS = 1.0  # between two comparisons of the clocks


class Fleet:
    """A fleet of machines: takes commands, publishes documents, runs timers and impacts."""

    def __init__(
        self, store: Store, clock: Clock, driver: Driver, *, cached: int = CACHED_ENTITIES
    ) -> None:
        self.store = store
        self.clock = clock
        self.reader = FleetReader(store)
        self.documents = DocumentCache(self._load_scope)
        self._committer = Committer(store, clock, self.reader, self.documents, cached=cached)
        self.store_check = StoreCheck(self._committer.check_store)
        self._shared = store.shared
        self.polls = PollLog(self.post, self._wake)
        self.deliveries = DeliveryLog(self.post, lambda: clock.rate)
        self._advancing = asyncio.Lock()
        self.faults = FaultRules(clock.now, shared=bool(self._shared))
        self.publisher = Publisher(self.documents, self.polls)
        self.publisher.followers.append(self.deliveries.follow)
        self._decided = self._refused = 0
        self._impacts = ImpactDispatcher(driver, clock, self.post)
        self._timers = Timers(clock, self._wake)
        self._due_work = DueWork(store, clock, self.documents, self.polls, self._timers)
        self.following = (
            ChangeFollower(store, self._shared, self.documents, self._wake, self._synchronize)
            if self._shared
            else None
        )
        self._queue: list[PendingCommand] = []
        self._awake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self.clock_monitor = ClockMonitor(
            clock, "the database's clock" if self._shared else "the host's clock"
        )
        self.retry_later: Callable[[Callable[[], None]], None] = _in_real_time
        self.new_secret: Callable[[], str] = secrets.token_hex
        """Makes the secret of a new fleet. It goes into event ids: none can be guessed (E2)."""

    @property
    def broken(self) -> InvariantViolated | None:
        """The violated invariant that stopped writes (IS4); None while commands are decided."""
        return self._committer.broken

    async def _load_scope(self, scope: str) -> Scope | None:
        return await self.reader.read(Scope, scope)

    # --- Start and stop ---

    async def start(self) -> None:
        """Open the store and resume clock, impacts and timers (E9)."""
        try:
            await self.open()
            self._tasks.append(asyncio.create_task(self._write(), name="fleet writer"))
            if self.following:
                self._tasks.append(asyncio.create_task(self.following.run(), name="fleet follower"))
                await self.following.caught_up.wait()
            elif self.clock.host_time:
                self._tasks.append(asyncio.create_task(self._watch_clock(), name="fleet clock"))
        except BaseException:
            await self._close()
            raise

    async def open(self) -> None:
        """`start` without its background tasks."""
        await self.store.open()
        failpoints.hit("start.opened")
        if self._shared:
            self._synchronize(await self._shared.read_clock())
        else:
            await self._resume_clock()
        self._committer.secret = await self.store.add_note_if_absent("secret", self.new_secret())
        if isinstance(self.clock, VirtualClock):
            self.clock.settled = self.settled
        await self._resume_impacts()
        self._timers.arm(await self.store.next_due())
        failpoints.hit("start.recovered")

    def _synchronize(self, reading: ClockReading) -> None:
        self.clock.synchronize(reading)
        self.clock_monitor.report()

    async def _resume_clock(self) -> None:
        state = await self.store.get_note("clock")
        lines = await self.store.latest_lines(1)
        self._committer.restore_clock(state or "", lines[0].line.at if lines else 0.0)
        if lines:  # else nothing was ever announced
            with suppress(Unavailable):  # the next commit or comparison stores it
                await self._committer.store_clock()

    async def _resume_impacts(self) -> None:
        last = ""
        while impacts := await self.store.unfinished_impacts(last, BATCH_COMMANDS):
            for impact in impacts:
                self._impacts.dispatch(impact)
            last = impacts[-1].id

    async def stop(self) -> None:
        """Finish accepted commands, write what is buffered, and close the store."""
        self.polls.record_all()
        self.deliveries.write()
        self._stopping = True
        self._drop_abandoned()
        await self.settled()
        failpoints.hit("stop.drained")
        await self._close()

    def _drop_abandoned(self) -> None:
        """Drop the commands whose callers were cancelled, such as those of an unfinished import."""
        self._queue[:] = [
            pending
            for pending in self._queue
            if pending.future is None or not pending.future.cancelled()
        ]

    async def _close(self) -> None:
        self._timers.disarm()
        self._impacts.close()
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self.store.close()

    async def settled(self) -> None:
        """Return once the queue is empty and nothing is due."""
        while not self._idle.is_set():
            await self._idle.wait()

    # --- Commands ---

    async def submit(self, command: Command) -> Operation | None:
        """Decide a command; return its operation, if any, once it is durable and visible."""
        validate(command)
        self._committer.check_writing()
        if self._stopping:
            raise Unavailable("Stopping", "the service is stopping; try again when it is back")
        future: asyncio.Future[Operation | None] = asyncio.get_running_loop().create_future()
        self.deliveries.write()  # journal deliveries before the approval that follows them
        self._queue.append(PendingCommand(command, future))
        self._wake()
        return await future

    def post(self, command: Command) -> None:
        """Submit without waiting; retried while the store is unavailable."""
        if not self._stopping:
            self._queue.append(PendingCommand(command, None))
            self._wake()

    async def advance(self, seconds: float) -> None:
        """Advance virtual time and do everything that becomes due."""
        clock = self._virtual()
        async with self._advancing:  # concurrent calls add up
            self.polls.collect()  # polls count at the time they were made
            self.deliveries.write()
            await clock.advance(seconds)
            await self._keep_time()

    async def run_clock(self, rate: float) -> None:
        """Run virtual time at a multiple of real time; 0 pauses it."""
        self._virtual().run(rate)
        await self._keep_time()

    async def _watch_clock(self) -> None:
        while True:
            await self.compare_clocks()
            await asyncio.sleep(_COMPARE_SECONDS)

    async def compare_clocks(self) -> None:
        """Compare fleet time with the host's clock, and remember a new difference."""
        if self.clock_monitor.compare(self._committer.stored_clock):
            with suppress(Unavailable):  # the next commit or comparison stores it
                await self._committer.store_clock()

    async def _keep_time(self) -> None:
        await self._committer.store_clock()
        self.publisher.notify_readers()

    def _virtual(self) -> VirtualClock:
        if not isinstance(self.clock, VirtualClock):
            raise Refused("RealTime", "this fleet runs in real time; start it with a virtual clock")
        return self.clock

    # --- Reads ---

    async def poll(self, scope: str) -> PublishedScope:
        """The published document of a scope; the first poll enables Scheduled Events (M14)."""
        published = await self.documents.fetch(scope)
        if published.scope and published.scope.enabled:
            self.polls.record(published.scope, self.clock.now())
        else:
            await self.submit(Poll(scope=scope, actor="machine"))
        await self._ready(published)
        return published

    async def _ready(self, published: PublishedScope) -> None:
        """Wait until Scheduled Events is ready (M14)."""
        ready = published.scope.ready_at if published.scope else 0.0
        if ready > self.clock.now():
            held = asyncio.Event()
            alarm = self.clock.call_at(ready, held.set)
            try:
                await held.wait()
            finally:
                alarm.cancel()

    def metrics(self) -> list[Metric]:
        """Metrics about commands."""
        stale = self.documents.is_stale()
        return [
            counter("fairwarning_commands", "Commands decided.", self._decided),
            counter("fairwarning_commands_refused", "Commands refused.", self._refused),
            counter("fairwarning_commits", "Transactions committed.", self._committer.commits),
            gauge("fairwarning_commands_waiting", "Commands that wait.", len(self._queue)),
            gauge("fairwarning_accepting_commands", "1 while commands are taken.", not self.broken),
            gauge("fairwarning_documents_stale", "1 while polls are refused as too old.", stale),
            *self.clock_monitor.metrics(),
            *(self.following.snapshots if self.following else SnapshotMonitor()).metrics(),
        ]

    # --- The writer ---

    def _wake(self) -> None:
        self._idle.clear()
        self._awake.set()

    async def _write(self) -> None:
        while True:
            await self._awake.wait()
            self._awake.clear()
            await self.process_queue()
            self._idle.set()

    async def process_queue(self) -> None:
        """Process batches until the queue is empty and nothing is due."""
        while (
            self._queue
            or self._timers.due
            or self.polls.has_waiting
            or (self.following and self.following.has_heartbeat)
        ):
            await self._catch_up()
            await self._record_polls()
            waiting = self._queue[:BATCH_COMMANDS]
            del self._queue[:BATCH_COMMANDS]
            try:
                await self.process_batch(waiting)
            except Exception as bug:
                log.exception("batch failed")
                self._stop_writing(InvariantViolated("Bug", f"a batch failed: {bug}"))
                for pending in waiting:
                    pending.error = self._committer.broken
                    pending.answer()

    async def _catch_up(self) -> None:
        """Apply changes of other processes, and take over their orphaned impacts."""
        heartbeat = (
            await self.following.catch_up(self.publisher.publish) if self.following else None
        )
        if heartbeat is None or self.following is None:
            return
        if self.following.journal_grew(heartbeat):
            self.publisher.notify_watchers()
            self.publisher.notify_readers()
        if self._committer.broken:
            return
        self._timers.arm(heartbeat.due)
        self.polls.record_idle(self.clock.now())
        if heartbeat.orphaned_impacts:
            with suppress(Unavailable):  # the next heartbeat reports them again
                await self._resume_impacts()

    async def _record_polls(self) -> None:
        """Record some of the polls that wait, in one statement and without a decision (X5)."""
        polls = self.polls.take_waiting()
        if not polls or self._committer.broken:
            return
        try:
            await self.store.record_polls(polls)
        except Unavailable:
            if not self._stopping:
                self.retry_later(lambda: self.polls.put_back(polls))

    async def process_batch(self, waiting: Sequence[PendingCommand]) -> None:
        """Process these commands and everything that is due, in as few transactions as possible."""
        failpoints.hit("batch.taken")
        due = await self._take_due() if self._timers.due else []
        left: Sequence[PendingCommand] = [*waiting, *due]
        while left:
            left = await self._process_transaction(left, set(due))

    async def _process_transaction(
        self, waiting: Sequence[PendingCommand], due: set[PendingCommand]
    ) -> Sequence[PendingCommand]:
        """Process as many commands as fit into one transaction, and return those that are left."""
        now = self.clock.now()
        try:
            work = await self._committer.decide(waiting)
        except Conflict as conflict:
            if len(waiting) > 1:  # one command prevents the commit: process them singly
                for pending in waiting:
                    await self.process_batch([pending])
                return []
            work = CommandBatch()
            waiting[0].error = conflict if conflict.code != "Stale" else _contended(conflict)
        taken = len(waiting) - work.left
        waiting, left = waiting[:taken], waiting[taken:]
        for pending in waiting:
            if pending.error:
                self._refuse(pending, pending.error)
        if not work.changes and (overdue := [pending for pending in waiting if pending in due]):
            await self._check_time(overdue, now)
        if self._shared:
            self.publisher.show_newer(work)
        if work.committed:
            self._timers.arm(work.next_due)
            self.publisher.make_visible(work)
            self._carry_out(work)
        self._acknowledge(waiting)
        return left

    def _acknowledge(self, waiting: Sequence[PendingCommand]) -> None:
        failpoints.hit("ack.before")
        for pending in waiting:
            pending.answer()
            if isinstance(pending.command, ReportImpact) and not isinstance(
                pending.error, Unavailable
            ):
                self._impacts.forget(pending.command.impact)
            self._decided += 1
            self._refused += pending.error is not None
        failpoints.hit("ack.after")

    async def _check_time(self, due: Sequence[PendingCommand], told_at: float) -> None:
        """An entity that was due at a time, when it was told so, must have changed."""
        if any(isinstance(pending.error, Unavailable) for pending in due):
            return  # the store is unavailable: nothing can be said about due entities
        try:
            work = await self._committer.correct_due({target(p.command) for p in due}, told_at)
        except InvariantViolated as stuck:
            self._stop_writing(stuck)
            return
        except (Unavailable, Conflict):
            work = CommandBatch()  # it is tried again
        self.publisher.make_visible(work)
        self._timers.fire()

    async def _take_due(self) -> list[PendingCommand]:
        """Commands for the entities that are due."""
        self._timers.due = False
        try:
            commands = await self._due_work.commands(BATCH_COMMANDS)
        except Unavailable:
            self.retry_later(self._timers.fire)
            return []
        return [PendingCommand(command, None) for command in commands]

    async def polled_at(self, scopes: Sequence[Scope]) -> list[float]:
        """The last poll of each scope, or 0. Another process may have had one since."""
        recorded = await self.store.recorded_polls([scope.id for scope in scopes])
        return [
            max(scope.polled_at, self.polls.last(scope.id), recorded.get(scope.id, 0.0))
            for scope in scopes
        ]

    # --- After the commit ---

    def _carry_out(self, work: CommandBatch) -> None:
        for impact in work.impacts:
            self._impacts.dispatch(impact)
        for settled in work.settled:
            self._impacts.forget(settled)

    def _refuse(self, pending: PendingCommand, error: FairwarningError) -> None:
        if isinstance(error, InvariantViolated):
            self._stop_writing(error)
        elif (
            pending.future is None and isinstance(error, Unavailable) and not self._committer.broken
        ):
            self.retry_later(lambda: self._retry(pending.command))

    def _retry(self, command: Command) -> None:
        if isinstance(command, AdvanceTime | RetryLane):
            self._timers.fire()
        else:
            self.post(command)

    def _stop_writing(self, error: InvariantViolated) -> None:
        """Stop writing after a violated invariant; reads continue (IS4)."""
        log.critical("writes stopped: %s", error)
        self._committer.broken = error
        self._timers.disarm()
        if self._shared:
            self._tasks.append(asyncio.create_task(self._shared.retire(), name="fleet retires"))


def _contended(conflict: Conflict) -> Unavailable:
    """The entity was changed by other processes at every attempt."""
    return Unavailable(
        "Contended", f"other processes keep changing the same entity; try again ({conflict})"
    )


def _in_real_time(callback: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(RETRY_SECONDS, callback)
