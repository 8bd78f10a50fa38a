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
from fairwarning.core.cascade import Missing, Outcome
from fairwarning.core.commands import (
    Command,
    Elapse,
    Poll,
    ResourceCommand,
    RetryLane,
    operation_of,
    validate,
)
from fairwarning.core.errors import Broken, Conflict, FairwarningError, Refused, Unavailable
from fairwarning.core.model import (
    Entity,
    Lane,
    Operation,
    Ref,
    Scope,
)
from fairwarning.machines.driver import Driver
from fairwarning.service import failpoints
from fairwarning.service.batch import Waiting, Work
from fairwarning.service.clock import Clock, VirtualClock
from fairwarning.service.documents import Documents, Published
from fairwarning.service.faults import Faults
from fairwarning.service.impacts import Impacts
from fairwarning.service.metrics import Metric, counter, gauge
from fairwarning.service.polls import Polls
from fairwarning.service.reads import Reads
from fairwarning.service.timers import Timers
from fairwarning.service.told import Told
from fairwarning.store.store import Batch, Store

log = logging.getLogger(__name__)

BATCH_COMMANDS = 256  # decided and committed together at most
CACHED_ENTITIES = 4096
RETRY_SECONDS = 1.0  # real seconds until what nobody waits for is tried again


class Fleet(Reads):
    """A fleet of machines: submit commands, read documents; time and drivers do the rest."""

    def __init__(
        self, store: Store, clock: Clock, driver: Driver, *, cached: int = CACHED_ENTITIES
    ) -> None:
        super().__init__(store)
        self.clock = clock
        self.documents = Documents(self._load_scope)
        self.polls = Polls(self.post)
        self.told = Told(self.post, self._rate)
        self._advancing = asyncio.Lock()
        self.faults = Faults(clock.now)
        self.broken: Broken | None = None
        self.followers: list[Callable[[str, Scope | None], None]] = [self.told.follow]
        """Called with each scope that has changed, once that is durable; None: it is gone."""
        self.readers: list[Callable[[], None]] = []
        """Called when the journal has new lines, or the clock was moved."""
        self._decided = self._commits = self._refused = 0
        self._impacts = Impacts(driver, self.post)
        self._timers = Timers(clock, self._wake)
        self._cached = cached
        self._queue: list[Waiting] = []
        self._awake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._writer: asyncio.Task[None] | None = None
        self._stopping = False
        self.retry_later: Callable[[Callable[[], None]], None] = _in_real_time

    # --- Life ---

    async def start(self) -> None:
        """Open the store and take up whatever was under way: time, impacts, timers (E9)."""
        await self.open()
        self._writer = asyncio.create_task(self._write(), name="fleet writer")

    async def open(self) -> None:
        """All of `start` but the writer."""
        await self.store.open()
        failpoints.hit("start.opened")
        if kept := await self.store.note("clock"):
            self.clock.restore(kept)
        if isinstance(self.clock, VirtualClock):
            self.clock.settled = self.settled
        last = ""
        while impacts := await self.store.unfinished(last, BATCH_COMMANDS):
            for impact in impacts:
                self._impacts.hand_over(impact)
            last = impacts[-1].id
        self._timers.arm(await self.store.next_due())
        failpoints.hit("start.recovered")

    async def stop(self) -> None:
        """Finish what was accepted, write what was kept back, and let go of the store."""
        for poll in self.polls.unwritten():
            self.post(poll)
        self.told.write()
        self._stopping = True
        await self.settled()
        failpoints.hit("stop.drained")
        self._timers.disarm()
        if self._writer:
            self._writer.cancel()
            with suppress(asyncio.CancelledError):
                await self._writer
        await self.store.close()

    async def settled(self) -> None:
        """Return once nothing waits to be decided and nothing is due."""
        while not self._idle.is_set():
            await self._idle.wait()

    # --- Commands ---

    async def submit(self, command: Command) -> Operation | None:
        """Decide a command; return once it is durable and visible, with its operation if any."""
        validate(command)
        self._check_writing()
        if self._stopping:
            raise Unavailable("Stopping", "the service is stopping; try again when it is back")
        future: asyncio.Future[Operation | None] = asyncio.get_running_loop().create_future()
        self.told.write()  # who approves was told before
        self._queue.append(Waiting(command, future))
        self._wake()
        return await future

    def post(self, command: Command) -> None:
        """Submit without waiting; tried again for as long as the store cannot take it."""
        if not self._stopping:
            self._queue.append(Waiting(command, None))
            self._wake()

    async def advance(self, seconds: float) -> None:
        """Let virtual time pass, and everything that is due in it happen."""
        clock = self._virtual()
        async with self._advancing:  # two who let time pass at once add up
            self.polls.collect()  # by the time at which they were
            self.told.write()
            await clock.advance(seconds)
            await self._keep_time()

    async def run_clock(self, rate: float) -> None:
        """Let virtual time run at a multiple of real time; 0 freezes it."""
        self._virtual().run(rate)
        await self._keep_time()

    async def _keep_time(self) -> None:
        await self.store.commit(Batch(self.clock.now(), notes=self._notes()))
        self._tell_readers()

    def _rate(self) -> float:
        return self.clock.rate if isinstance(self.clock, VirtualClock) else 1.0

    def _virtual(self) -> VirtualClock:
        if not isinstance(self.clock, VirtualClock):
            raise Refused("RealTime", "this fleet runs in real time; start it with a virtual clock")
        return self.clock

    # --- Reads ---

    async def poll(self, scope: str) -> Published:
        """What a machine of this scope sees now; the first time, that enables the feature (M14)."""
        published = await self.documents.fetch(scope)
        if published.incarnation:
            self.polls.seen(scope, self.clock.now())
        else:
            await self.submit(Poll(scope=scope, actor="machine"))
        await self._ready(published)
        return published

    async def _ready(self, published: Published) -> None:
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
        return [
            counter("fairwarning_commands", "Commands decided.", self._decided),
            counter("fairwarning_commands_refused", "Commands refused.", self._refused),
            counter("fairwarning_commits", "Transactions committed.", self._commits),
            gauge("fairwarning_commands_waiting", "Commands that wait.", len(self._queue)),
            gauge("fairwarning_writing", "1 while commands are taken.", self.broken is None),
        ]

    async def _load_scope(self, scope: str) -> Scope | None:
        return await self.read(Scope, scope)

    # --- The writer ---

    def _check_writing(self) -> None:
        if self.broken:
            raise Unavailable("WritesStopped", f"writes have stopped; reads go on ({self.broken})")

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
        while self._queue or self._timers.due:
            waiting = self._queue[:BATCH_COMMANDS]
            del self._queue[:BATCH_COMMANDS]
            try:
                await self.carry(waiting)
            except Exception as bug:
                log.exception("a batch failed")
                self._stop_writing(Broken("Bug", f"a batch failed: {bug}"))
                for one in waiting:
                    one.error = self.broken
                    one.answer()

    async def carry(self, waiting: Sequence[Waiting]) -> None:
        """One round: everything that waits, and everything that is due, in one transaction."""
        failpoints.hit("batch.taken")
        elapsed = await self._elapsed() if self._timers.due else []
        waiting = [*waiting, *elapsed]
        work = Work()
        await self._decide_all(waiting, work)
        if elapsed and not work.changes and not any(_may_pass(one.error) for one in elapsed):
            self._stop_writing(Broken("Stuck", f"{elapsed[0].command} is due but changes nothing"))
        if await self._commit(waiting, work):
            self._make_visible(work)
            self._carry_out(work)
        failpoints.hit("ack.before")
        for one in waiting:
            one.answer()
            self._decided += 1
            self._refused += one.error is not None
        failpoints.hit("ack.after")

    async def _decide_all(self, waiting: Sequence[Waiting], work: Work) -> None:
        try:
            await self._prefetch(waiting, work)
        except Unavailable as error:
            for one in waiting:
                self._refuse(one, error)
            return
        for one in waiting:
            try:
                outcome = await self._decide(one.command, work)
            except FairwarningError as error:
                self._refuse(one, error)
            else:
                work.add(outcome)
                one.operation = outcome.operation

    async def _prefetch(self, waiting: Sequence[Waiting], work: Work) -> None:
        """Load in one go what the commands name themselves."""
        wanted: dict[Ref, None] = {}
        for one in waiting:
            _name(one.command, wanted)
            if operation := operation_of(one.command):
                wanted[Operation, operation] = None
        missing = [ref for ref in wanted if ref not in self._cache]
        if missing:
            work.loaded.update(await self.store.load(missing))

    async def _decide(self, command: Command, work: Work) -> Outcome:
        def get(ref: Ref) -> Entity | None:
            change = work.changes.get(ref)
            if change:
                return change[1]
            entity = self._cache.get(ref)
            if entity is None:
                try:
                    return work.loaded[ref]
                except KeyError:
                    raise Missing(ref) from None
            return entity

        self._check_writing()
        while True:
            try:
                return cascade.run(command, self.clock.now(), get)
            except Missing as missing:
                work.loaded.update(await self.store.load([missing.ref]))
            except FairwarningError:
                raise
            except Exception as bug:
                raise Broken("Bug", f"{type(command).__name__} could not be decided") from bug

    async def _elapsed(self) -> list[Waiting]:
        """The commands that time itself gives."""
        self._timers.due = False
        try:
            refs = await self.store.due(self.clock.now(), BATCH_COMMANDS)
            if not refs:
                self._timers.arm(await self.store.next_due())
        except Unavailable:
            self.retry_later(self._timers.ring)
            return []
        return [Waiting(command, None) for ref in refs for command in self._elapse(*ref)]

    def _elapse(self, kind: type[Entity], name: str) -> list[Command]:
        if kind is Lane:
            return [RetryLane(lane=name)]
        last = self.polls.last(name)
        if not last:
            return [Elapse(scope=name)]
        # Whoever asked since that was last written keeps the feature on (M14).
        return [Poll(scope=name, at=last, actor="machine"), Elapse(scope=name)]

    # --- A round's end ---

    async def _commit(self, waiting: Sequence[Waiting], work: Work) -> bool:
        if not work.changes and not work.lines:
            return True
        failpoints.hit("commit.before")
        try:
            next_due = await self.store.commit(work.batch(self.clock.now(), self._notes()))
        except Conflict as conflict:
            await self._one_by_one(waiting, work, conflict)
            return False
        except Unavailable as error:
            for one in waiting:
                self._refuse(one, error)
            return False
        failpoints.hit("commit.after")
        self._commits += 1
        self._keep(work)
        self._timers.arm(next_due)
        return True

    async def _one_by_one(self, waiting: Sequence[Waiting], work: Work, conflict: Conflict) -> None:
        """One command spoils the batch (a stale entity, an address taken): find out which."""
        for ref in work.changes:
            self._cache.pop(ref, None)
        if len(waiting) == 1:
            self._refuse(waiting[0], conflict)
            return
        for one in waiting:
            one.error = None  # it may have been refused only because of a mate that is thrown out
            await self.carry([one])

    def _keep(self, work: Work) -> None:
        for ref, entity in work.loaded.items():
            if entity is not None:
                self._cache.setdefault(ref, entity)
        for ref, (_, after) in work.changes.items():
            self._cache.pop(ref, None)
            if after is not None:
                self._cache[ref] = after
        while len(self._cache) > self._cached:
            self._cache.popitem(last=False)

    def _make_visible(self, work: Work) -> None:
        for name, scope in work.scopes():
            self.documents.publish(name, scope)
            if scope is None or not scope.enabled:
                self.polls.forget(name)
            for follower in self.followers:
                follower(name, scope)
        if work.lines:
            self._tell_readers()
        failpoints.hit("publish.after")

    def _tell_readers(self) -> None:
        for reader in tuple(self.readers):
            reader()

    def _carry_out(self, work: Work) -> None:
        for impact in work.impacts:
            self._impacts.hand_over(impact)
        for settled in work.settled:
            self._impacts.forget(settled)

    def _refuse(self, one: Waiting, error: FairwarningError) -> None:
        one.error = error
        if isinstance(error, Broken):
            self._stop_writing(error)
        elif one.future is None and isinstance(error, Unavailable) and not self.broken:
            self.retry_later(lambda: self._again(one.command))

    def _again(self, command: Command) -> None:
        if isinstance(command, Elapse | RetryLane):
            self._timers.ring()
        else:
            self.post(command)

    def _stop_writing(self, error: Broken) -> None:
        """IS4: an invariant failed. Nothing is written any more; reads go on."""
        log.critical("writes stop: %s", error)
        self.broken = error
        self._timers.disarm()

    def _notes(self) -> dict[str, str]:
        state = self.clock.state()
        return {"clock": state} if state else {}


def _name(command: Command, wanted: dict[Ref, None]) -> None:
    wanted[command.on, getattr(command, command.target)] = None
    if isinstance(command, ResourceCommand):
        for one in command.follow:
            _name(one, wanted)


def _may_pass(error: FairwarningError | None) -> bool:
    """A store that cannot be reached is no reason to think that time stands still."""
    return isinstance(error, Unavailable)


def _in_real_time(callback: Callable[[], None]) -> None:
    asyncio.get_running_loop().call_later(RETRY_SECONDS, callback)
