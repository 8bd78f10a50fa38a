"""Carries queued commands out: decide -> commit -> publish -> carry out -> acknowledge.

One task takes the queued commands, decides them in order and commits them as one transaction. This
is the only lock, and it gives group commit. Durable before visible, visible before impact,
acknowledged only when durable.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from fairwarning.core.commands import (
    AdvanceTime,
    Command,
    GiveUpImpact,
    ReportImpact,
    RetryLane,
)
from fairwarning.core.errors import (
    Bug,
    Conflict,
    FairwarningError,
    StoreDamaged,
    Unavailable,
)
from fairwarning.core.model import Scope
from fairwarning.core.set_aside import retry_seconds
from fairwarning.machines.driver import Driver
from fairwarning.service import failpoints
from fairwarning.service.clock import Clock
from fairwarning.service.documents import DocumentCache
from fairwarning.service.following import ChangeFollower
from fairwarning.service.health import PartHealth
from fairwarning.service.metrics import Metric, counter, gauge
from fairwarning.service.polls import PollLog
from fairwarning.service.reader import load_readable
from fairwarning.service.writer.batch import CommandBatch, PendingCommand
from fairwarning.service.writer.command_queue import CommandQueue
from fairwarning.service.writer.committer import Committer, target
from fairwarning.service.writer.due_work import DueWork
from fairwarning.service.writer.impacts import ImpactDispatcher
from fairwarning.service.writer.publisher import Publisher
from fairwarning.service.writer.set_aside import SetAsideEntities
from fairwarning.service.writer.timers import Timers
from fairwarning.store.store import Store

log = logging.getLogger(__name__)

BATCH_COMMANDS = 256  # per transaction at most
RETRY_SECONDS = 1.0  # of real time, until a command without a caller is retried


class CommandWriter:
    """The only task that changes the fleet; it also tells entities when their time has come."""

    def __init__(
        self,
        queue: CommandQueue,
        committer: Committer,
        publisher: Publisher,
        *,
        store: Store,
        clock: Clock,
        driver: Driver,
        documents: DocumentCache,
        polls: PollLog,
        set_aside: SetAsideEntities,
    ) -> None:
        self._queue = queue
        self._committer = committer
        self._publisher = publisher
        self._store = store
        self._clock = clock
        self._polls = polls
        self._set_aside = set_aside
        self._impacts = ImpactDispatcher(driver, clock, queue.post)
        self._timers = Timers(clock, queue.wake)
        self._due_work = DueWork(store, clock, documents, polls, self._timers)
        self._decided = self._refused = self._turns = 0
        self._retiring: asyncio.Task[None] | None = None
        self.following: ChangeFollower | None = None  # of a shared store
        self.retry_later: Callable[[float, Callable[[], None]], object] = _in_real_time

    @property
    def progress(self) -> int | None:
        """A number that changes with every batch and transaction; None while there is no work."""
        return None if self._queue.is_idle() else self._turns

    async def run(self) -> None:
        """Process the queue until cancelled."""
        while True:
            await self._queue.wait()
            await self.process_queue()
            self._queue.rest()

    async def resume(self) -> None:
        """Resume the impacts and timers of earlier processes (E9)."""
        await self._resume_impacts()
        self._timers.arm(await self._store.next_due())

    async def close(self) -> None:
        """Set no timers and give no impact up any more."""
        self._timers.disarm()
        self._impacts.close()
        if self._retiring:
            self._retiring.cancel()
            await asyncio.wait([self._retiring])

    def metrics(self) -> list[Metric]:
        """Metrics about commands."""
        accepting = not self._committer.broken
        return [
            counter("fairwarning_commands", "Commands decided.", self._decided),
            counter("fairwarning_commands_refused", "Commands refused.", self._refused),
            counter("fairwarning_bugs", "Commands that met a bug.", self._committer.bugs),
            counter("fairwarning_commits", "Transactions committed.", self._committer.commits),
            gauge("fairwarning_commands_waiting", "Commands that wait.", len(self._queue)),
            gauge("fairwarning_accepting_commands", "1 while commands are taken.", accepting),
            *self._set_aside.metrics(),
        ]

    def health(self) -> PartHealth:
        """Whether commands are decided (IS4), and for all entities (IB1)."""
        broken = bool(self._committer.broken)
        if broken:
            text = "writes have stopped and reads continue; see the log for the cause"
        elif count := len(self._set_aside):
            text = f"{count} set aside because of a bug; see `fairwarning bug list`"
        else:
            text = ""
        return PartHealth(name="writer", problem=text, stops_writes=broken)

    async def process_queue(self) -> None:
        """Process batches until the queue is empty and nothing is due."""
        while (
            self._queue
            or self._timers.due
            or self._polls.has_waiting
            or (self.following and self.following.has_heartbeat)
        ):
            self._turns += 1
            waiting: Sequence[PendingCommand] = ()
            try:
                await self._catch_up()
                await self._record_polls()
                waiting = self._queue.take(BATCH_COMMANDS)
                await self.process_batch(waiting)
            except Exception as error:  # noqa: BLE001  (the writer must never end)
                self._survive(error, waiting)

    def _survive(self, error: Exception, waiting: Sequence[PendingCommand]) -> None:
        """After a failure that no single command has caused, go on with the next batch."""
        if isinstance(error, StoreDamaged):
            self.stop_writing(error)
        else:
            log.error("a batch failed", exc_info=error)
            self.retry_later(RETRY_SECONDS, self._timers.fire)
        for pending in waiting:
            pending.error = self._committer.broken or Bug("a bug; this may have taken effect")
            if not self._committer.broken:
                self._refuse(pending, pending.error)  # a driver reports only once
            pending.answer()

    async def _catch_up(self) -> None:
        """Apply changes of other processes, and take over their orphaned impacts."""
        if self._committer.unclear and not self._committer.broken:
            await self._follow_unclear_commits()
        heartbeat = (
            await self.following.catch_up(self._publisher.publish) if self.following else None
        )
        if heartbeat is None or self.following is None:
            return
        if self.following.journal_grew(heartbeat):
            self._publisher.notify_watchers()
            self._publisher.notify_readers()
        if self._committer.broken:
            return
        self._timers.arm(heartbeat.due)
        self._polls.record_idle(self._clock.now())
        if heartbeat.orphaned_impacts:
            with suppress(Unavailable):  # the next heartbeat reports them again
                await self._resume_impacts()

    async def _follow_unclear_commits(self) -> None:
        """Make visible and carry out what commits have stored that may have failed."""
        try:
            stored = await load_readable(self._store.load, list(self._committer.unclear))
            for (kind, name), entity in stored.items():
                if kind is Scope:
                    assert entity is None or isinstance(entity, Scope)
                    self._publisher.publish(name, entity)
            await self._set_aside.load()
            await self.resume()
        except StoreDamaged:
            raise
        except Exception as error:
            if not isinstance(error, Unavailable):
                log.exception("cannot read what a commit has stored; retrying")
            self.retry_later(RETRY_SECONDS, self._timers.fire)
            return
        self._committer.unclear.clear()
        self._publisher.notify_watchers()
        self._publisher.notify_readers()

    async def _resume_impacts(self) -> None:
        last = ""
        while impacts := await self._store.unfinished_impacts(last, BATCH_COMMANDS):
            for impact in impacts:
                self._impacts.dispatch(impact)
            last = impacts[-1].id

    async def _record_polls(self) -> None:
        """Record some of the polls that wait, in one statement and without a decision (X5)."""
        polls = self._polls.take_waiting()
        if not polls or self._committer.broken:
            return
        try:
            await self._store.record_polls(polls)
        except Unavailable:
            if not self._queue.stopping:
                self.retry_later(RETRY_SECONDS, lambda: self._polls.put_back(polls))

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
        self._turns += 1
        now = self._clock.now()
        try:
            work = await self._committer.decide(waiting)
        except Exception as error:  # noqa: BLE001  (whatever one command causes stays with it)
            if len(waiting) > 1:  # one command prevents the commit: process them singly
                for pending in waiting:
                    await self._process_transaction([pending], due)
                return []
            work = await self._explain_failure(waiting[0], error)
        taken = len(waiting) - work.left
        waiting, left = waiting[:taken], waiting[taken:]
        for pending in waiting:
            if pending.error:
                self._refuse(pending, pending.error)
        if not work.changes and (overdue := [pending for pending in waiting if pending in due]):
            await self._check_time(overdue, now)
        if self._store.shared:
            self._publisher.show_newer(work)
        if work.committed:
            self._timers.arm(work.next_due)
            self._set_aside.follow(work)
            self._publisher.make_visible(work)
            self._carry_out(work)
        self._acknowledge(waiting)
        return left

    async def _explain_failure(self, pending: PendingCommand, error: Exception) -> CommandBatch:
        """A command could not be committed: give it an error, and set its entity aside if a bug."""
        work = CommandBatch()
        if isinstance(error, Conflict | StoreDamaged):
            pending.error = _contended(error) if isinstance(error, Conflict) else error
            return work
        try:
            pending.error, work = await self._committer.set_aside(pending.command, error)
        except Exception:
            log.exception("a bug prevents a commit, and its entity cannot be set aside")
            pending.error = Bug(f"{type(pending.command).__name__} met a bug, and had no effect")
            self.retry_later(RETRY_SECONDS, self._timers.fire)
        return work

    def _acknowledge(self, waiting: Sequence[PendingCommand]) -> None:
        failpoints.hit("ack.before")
        for pending in waiting:
            pending.answer()
            if isinstance(pending.command, ReportImpact) and not isinstance(
                pending.error, Unavailable | Bug
            ):  # else the report is tried again, and the driver must not get the impact again
                self._impacts.forget(pending.command.impact)
            self._decided += 1
            self._refused += pending.error is not None
        failpoints.hit("ack.after")

    async def _check_time(self, due: Sequence[PendingCommand], told_at: float) -> None:
        """An entity that was due at a time, when it was told so, must have changed."""
        if any(isinstance(pending.error, Unavailable) for pending in due):
            return  # the store is unavailable: nothing can be said about due entities
        try:
            work = await self._committer.correct_due([p.command for p in due], told_at)
        except (Unavailable, Conflict):
            work = CommandBatch()  # it is tried again
        except Exception:
            log.exception("an entity that is due cannot be read; trying again")
            self.retry_later(RETRY_SECONDS, self._timers.fire)
            return
        self._set_aside.follow(work)
        self._publisher.make_visible(work)
        self._timers.fire()

    async def _take_due(self) -> list[PendingCommand]:
        """Commands for the entities that are due."""
        self._timers.due = False
        try:
            commands = await self._due_work.commands(BATCH_COMMANDS)
        except StoreDamaged:
            raise
        except Exception as error:  # the commands of this batch go on
            if not isinstance(error, Unavailable):
                log.exception("cannot read which entities are due; retrying")
            self.retry_later(RETRY_SECONDS, self._timers.fire)
            return []
        return [PendingCommand(command, None) for command in commands]

    # --- After the commit ---

    def _carry_out(self, work: CommandBatch) -> None:
        for impact in work.impacts:
            self._impacts.dispatch(impact)
        for settled in work.settled:
            self._impacts.forget(settled)

    def _refuse(self, pending: PendingCommand, error: FairwarningError) -> None:
        if error.code == "StoreUnclear":
            self._timers.fire()
        if isinstance(error, StoreDamaged):
            self.stop_writing(error)
        elif pending.future is not None or self._committer.broken:
            return
        elif isinstance(error, Unavailable):
            self.retry_later(RETRY_SECONDS, lambda: self._retry(pending.command))
        elif isinstance(error, Bug) and isinstance(pending.command, ReportImpact | GiveUpImpact):
            aside = self._set_aside.get(target(pending.command))
            seconds = retry_seconds(aside.attempts if aside else 1)
            self.retry_later(seconds, lambda: self._retry(pending.command))

    def _retry(self, command: Command) -> None:
        if isinstance(command, AdvanceTime | RetryLane):
            self._timers.fire()
        else:
            self._queue.post(command)

    def stop_writing(self, error: StoreDamaged) -> None:
        """Stop writing because the store contradicts its own check; reads continue (IS4)."""
        log.critical("writes stopped: %s", error)
        self._committer.broken = error
        self._timers.disarm()
        if self._store.shared:
            retirement = self._store.shared.retire()
            self._retiring = asyncio.create_task(retirement, name="fleet retires")


def _contended(conflict: Conflict) -> FairwarningError:
    """The error of a command that could not be committed."""
    if conflict.code != "Stale":
        return conflict
    # The entity was changed by other processes at every attempt.
    return Unavailable(
        "Contended", f"other processes keep changing the same entity; try again ({conflict})"
    )


def _in_real_time(seconds: float, callback: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(seconds, callback)
