"""The one way in: command -> decide -> commit -> publish -> carry out -> acknowledge.

One writer takes whatever waits, decides it in order, and commits it as one transaction: that is
the lock on every scope and the group commit in one. Durable before visible, visible before impact,
acknowledged only when durable.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress

from fairwarning.core import cascade
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
from fairwarning.core.model import (
    Entity,
    Lane,
    Operation,
    Ref,
    Scope,
)
from fairwarning.machines.driver import Driver
from fairwarning.service import failpoints
from fairwarning.service.batch import CommandBatch, PendingCommand
from fairwarning.service.clock import Clock, VirtualClock
from fairwarning.service.committer import CACHED_ENTITIES, Committer, target
from fairwarning.service.documents import DocumentCache, PublishedScope
from fairwarning.service.faults import FaultRules
from fairwarning.service.following import ChangeFollower
from fairwarning.service.history.deliveries import DeliveryLog
from fairwarning.service.impacts import ImpactDispatcher
from fairwarning.service.metrics import Metric, counter, gauge
from fairwarning.service.polls import PollLog
from fairwarning.service.reader import FleetReader
from fairwarning.service.timers import Timers
from fairwarning.store.store import Batch, Store

log = logging.getLogger(__name__)

BATCH_COMMANDS = 256  # decided and committed together at most
RETRY_SECONDS = 1.0  # real seconds until what nobody waits for is tried again
_CONTENDED_SECONDS = 0.02


class Fleet:
    """A fleet of machines: submit commands, read documents; time and drivers do the rest."""

    def __init__(
        self, store: Store, clock: Clock, driver: Driver, *, cached: int = CACHED_ENTITIES
    ) -> None:
        self.store = store
        self.clock = clock
        self.reader = FleetReader(store)
        self.documents = DocumentCache(self._load_scope)
        self._committer = Committer(store, clock, self.reader, self.documents, cached=cached)
        self._shared = store.shared
        self.polls = PollLog(self.post)
        self.deliveries = DeliveryLog(self.post, self._rate)
        self._advancing = asyncio.Lock()
        self.faults = FaultRules(clock.now, shared=bool(self._shared))
        self.followers: list[Callable[[str, Scope | None], None]] = [self.deliveries.follow]
        """Called with each scope that has changed, once that is durable; None: it is gone.

        Of those that other processes changed, with the ones that somebody reads here."""
        self.watchers: list[Callable[[], None]] = []
        """Called when any scope has changed, here or elsewhere."""
        self.readers: list[Callable[[], None]] = []
        """Called when the journal has new lines, or the clock was moved."""
        self._decided = self._refused = 0
        self._impacts = ImpactDispatcher(driver, self.post)
        self._timers = Timers(clock, self._wake)
        self.following = (
            ChangeFollower(store, self._shared, self.documents, self._wake)
            if self._shared
            else None
        )
        self._queue: list[PendingCommand] = []
        self._awake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self.retry_later: Callable[[Callable[[], None]], None] = _in_real_time

    @property
    def broken(self) -> InvariantViolated | None:
        """The violated invariant that stopped writes (IS4); None while commands are decided."""
        return self._committer.broken

    async def _load_scope(self, scope: str) -> Scope | None:
        return await self.reader.read(Scope, scope)

    # --- Start and stop ---

    async def start(self) -> None:
        """Open the store and take up whatever was under way: time, impacts, timers (E9)."""
        await self.open()
        self._tasks.append(asyncio.create_task(self._write(), name="fleet writer"))
        if self.following:
            self._tasks.append(asyncio.create_task(self.following.run(), name="fleet follower"))
            await self.following.begun.wait()

    async def open(self) -> None:
        """All of `start` but what runs on by itself."""
        await self.store.open()
        failpoints.hit("start.opened")
        if self._shared:
            self.clock.agree(await self._shared.time())
        elif kept := await self.store.get_note("clock"):
            self.clock.restore(kept)
        if isinstance(self.clock, VirtualClock):
            self.clock.settled = self.settled
        await self._take_up_impacts()
        self._timers.arm(await self.store.next_due())
        failpoints.hit("start.recovered")

    async def _take_up_impacts(self) -> None:
        last = ""
        while impacts := await self.store.unfinished_impacts(last, BATCH_COMMANDS):
            for impact in impacts:
                self._impacts.hand_over(impact)
            last = impacts[-1].id

    async def stop(self) -> None:
        """Finish what was accepted, write what was kept back, and let go of the store."""
        for poll in self.polls.unwritten():
            self.post(poll)
        self.deliveries.write()
        self._stopping = True
        await self.settled()
        failpoints.hit("stop.drained")
        self._timers.disarm()
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        await self.store.close()

    async def settled(self) -> None:
        """Return once nothing waits to be decided and nothing is due."""
        while not self._idle.is_set():
            await self._idle.wait()

    # --- Commands ---

    async def submit(self, command: Command) -> Operation | None:
        """Decide a command; return once it is durable and visible, with its operation if any."""
        validate(command)
        self._committer.check_writing()
        if self._stopping:
            raise Unavailable("Stopping", "the service is stopping; try again when it is back")
        future: asyncio.Future[Operation | None] = asyncio.get_running_loop().create_future()
        self.deliveries.write()  # who approves was told before
        self._queue.append(PendingCommand(command, future))
        self._wake()
        return await future

    def post(self, command: Command) -> None:
        """Submit without waiting; tried again for as long as the store cannot take it."""
        if not self._stopping:
            self._queue.append(PendingCommand(command, None))
            self._wake()

    async def advance(self, seconds: float) -> None:
        """Let virtual time pass, and everything that is due in it happen."""
        clock = self._virtual()
        async with self._advancing:  # two who let time pass at once add up
            self.polls.collect()  # by the time at which they were
            self.deliveries.write()
            await clock.advance(seconds)
            await self._keep_time()

    async def run_clock(self, rate: float) -> None:
        """Let virtual time run at a multiple of real time; 0 freezes it."""
        self._virtual().run(rate)
        await self._keep_time()

    async def _keep_time(self) -> None:
        await self.store.commit(Batch(self.clock.now(), notes=self._committer.notes()))
        self._tell_readers()

    def _rate(self) -> float:
        return self.clock.rate if isinstance(self.clock, VirtualClock) else 1.0

    def _virtual(self) -> VirtualClock:
        if not isinstance(self.clock, VirtualClock):
            raise Refused("RealTime", "this fleet runs in real time; start it with a virtual clock")
        return self.clock

    # --- Reads ---

    async def poll(self, scope: str) -> PublishedScope:
        """What a machine of this scope sees now; the first time, that enables the feature (M14)."""
        published = await self.documents.fetch(scope)
        if published.scope and published.scope.enabled:
            self.polls.seen(published.scope, self.clock.now())
        else:
            await self.submit(Poll(scope=scope, actor="machine"))
        await self._ready(published)
        return published

    async def _ready(self, published: PublishedScope) -> None:
        """Hold the answer until the feature is up (M14)."""
        ready = published.scope.ready_at if published.scope else 0.0
        if ready > self.clock.now():
            held = asyncio.Event()
            alarm = self.clock.call_at(ready, held.set)
            try:
                await held.wait()
            finally:
                alarm.cancel()

    def metrics(self) -> list[Metric]:
        """Figures about the commands so far."""
        stale = self.documents.is_stale()
        return [
            counter("fairwarning_commands", "Commands decided.", self._decided),
            counter("fairwarning_commands_refused", "Commands refused.", self._refused),
            counter("fairwarning_commits", "Transactions committed.", self._committer.commits),
            gauge("fairwarning_commands_waiting", "Commands that wait.", len(self._queue)),
            gauge("fairwarning_writing", "1 while commands are taken.", not self.broken),
            gauge("fairwarning_stale", "1 while polls are refused as too old.", stale),
        ]

    # --- The writer ---

    def _wake(self) -> None:
        self._idle.clear()
        self._awake.set()

    async def _write(self) -> None:
        while True:
            await self._awake.wait()
            self._awake.clear()
            await self.work_off()
            self._idle.set()

    async def work_off(self) -> None:
        """Round after round, until nothing waits and nothing is due."""
        while self._queue or self._timers.due or (self.following and self.following.has_news):
            await self._catch_up()
            waiting = self._queue[:BATCH_COMMANDS]
            del self._queue[:BATCH_COMMANDS]
            try:
                await self.carry(waiting)
            except Exception as bug:
                log.exception("a batch failed")
                self._stop_writing(InvariantViolated("Bug", f"a batch failed: {bug}"))
                for one in waiting:
                    one.error = self._committer.broken
                    one.answer()

    async def _catch_up(self) -> None:
        """Take in what other processes did, and take over what they leave."""
        beat = await self.following.catch_up(self._publish) if self.following else None
        if beat is None or self.following is None:
            return
        if self.following.has_lines(beat):
            self._tell_watchers()
            self._tell_readers()
        if self._committer.broken:
            return
        self._timers.arm(beat.due)
        self.polls.write_late(self.clock.now())
        if beat.orphaned_impacts:
            with suppress(Unavailable):  # the next beat says so again
                await self._take_up_impacts()

    async def carry(self, waiting: Sequence[PendingCommand]) -> None:
        """One round: everything that waits, and everything that is due, in one transaction."""
        failpoints.hit("batch.taken")
        elapsed = await self._elapsed() if self._timers.due else []
        waiting = [*waiting, *elapsed]
        try:
            work = await self._committer.decide(waiting)
        except Conflict as conflict:
            if len(waiting) > 1:  # one of them spoils it for all
                for one in waiting:
                    await self.carry([one])
                return
            work = CommandBatch()
            waiting[0].error = conflict if conflict.code != "Stale" else _contended(conflict)
        for one in waiting:
            if one.error:
                self._refuse(one, one.error)
        if elapsed and not work.changes:
            self._check_time(elapsed, work)
        if self._shared:
            self._show_newer(work)
        if work.committed:
            self._timers.arm(work.next_due)
            self._make_visible(work)
            self._carry_out(work)
        self._acknowledge(waiting)

    def _acknowledge(self, waiting: Sequence[PendingCommand]) -> None:
        failpoints.hit("ack.before")
        for one in waiting:
            one.answer()
            if isinstance(one.command, ReportImpact) and not isinstance(one.error, Unavailable):
                self._impacts.forget(one.command.impact)
            self._decided += 1
            self._refused += one.error is not None
        failpoints.hit("ack.after")

    def _check_time(self, elapsed: Sequence[PendingCommand], work: CommandBatch) -> None:
        """What is due must change; unless somebody else has seen to it meanwhile."""
        if any(isinstance(one.error, Unavailable) for one in elapsed):
            return  # a store that cannot be reached is no reason to think that time stands still
        stuck = [one for one in elapsed if self._is_due(target(one.command), work)]
        if stuck:
            self._stop_writing(
                InvariantViolated("Stuck", f"{stuck[0].command} is due but changes nothing")
            )
            return
        self._timers.ring()

    def _is_due(self, ref: Ref, work: CommandBatch) -> bool:
        entity = work.loaded.get(ref)
        moment = cascade.due(entity) if entity else None
        # What nobody else can have changed is what the store has said is due.
        return not self._shared or (moment is not None and moment <= self.clock.now())

    async def _elapsed(self) -> list[PendingCommand]:
        """The commands that time itself gives."""
        self._timers.due = False
        try:
            refs = await self.store.due_entities(self.clock.now(), BATCH_COMMANDS)
            if not refs:
                self._arm(await self.store.next_due())
        except Unavailable:
            self.retry_later(self._timers.ring)
            return []
        return [PendingCommand(command, None) for ref in refs for command in self._elapse(*ref)]

    def _arm(self, moment: float | None) -> None:
        """Nothing was due for us. If it seems so all the same, somebody is about to write it."""
        if moment is not None and moment <= self.clock.now():
            asyncio.get_running_loop().call_later(_CONTENDED_SECONDS, self._timers.ring)
        else:
            self._timers.arm(moment)

    def _elapse(self, kind: type[Entity], name: str) -> list[Command]:
        if kind is Lane:
            return [RetryLane(lane=name)]
        last = self.polls.last(name)
        if not last:
            return [AdvanceTime(scope=name)]
        # Whoever asked since that was last written keeps the feature on (M14).
        return [Poll(scope=name, at=last, actor="machine"), AdvanceTime(scope=name)]

    # --- A round's end ---

    def _make_visible(self, work: CommandBatch) -> None:
        for name, scope in work.scopes():
            self._publish(name, scope)
        self._tell_watchers()
        if work.lines:
            self._tell_readers()
        failpoints.hit("publish.after")

    def _show_newer(self, work: CommandBatch) -> None:
        """What was decided on may be newer than what is shown: its news is still on the way."""
        for (_, name), entity in work.loaded.items():
            published = self.documents.get(name) if isinstance(entity, Scope) else None
            if isinstance(entity, Scope) and published is not None and published.is_older(entity):
                self._publish(name, entity)

    def _publish(self, name: str, scope: Scope | None) -> None:
        self.documents.publish(name, scope)
        if scope and scope.enabled:
            self.polls.recorded(scope)
        else:
            self.polls.forget(name)
        for follower in self.followers:
            follower(name, scope)

    def _tell_watchers(self) -> None:
        for watcher in self.watchers:
            watcher()

    def _tell_readers(self) -> None:
        for reader in tuple(self.readers):
            reader()

    def _carry_out(self, work: CommandBatch) -> None:
        for impact in work.impacts:
            self._impacts.hand_over(impact)
        for settled in work.settled:
            self._impacts.forget(settled)

    def _refuse(self, one: PendingCommand, error: FairwarningError) -> None:
        if isinstance(error, InvariantViolated):
            self._stop_writing(error)
        elif one.future is None and isinstance(error, Unavailable) and not self._committer.broken:
            self.retry_later(lambda: self._again(one.command))

    def _again(self, command: Command) -> None:
        if isinstance(command, AdvanceTime | RetryLane):
            self._timers.ring()
        else:
            self.post(command)

    def _stop_writing(self, error: InvariantViolated) -> None:
        """IS4: an invariant failed. Nothing is written any more; reads go on."""
        log.critical("writes stop: %s", error)
        self._committer.broken = error
        self._timers.disarm()
        if self._shared:
            self._tasks.append(asyncio.create_task(self._shared.retire(), name="fleet retires"))


def _contended(conflict: Conflict) -> Unavailable:
    """Only other processes can have made it stale, each time it was decided anew."""
    return Unavailable("Contended", f"too many want to change it at once; try again ({conflict})")


def _in_real_time(callback: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(RETRY_SECONDS, callback)
