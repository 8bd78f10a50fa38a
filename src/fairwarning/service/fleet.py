"""The fleet: its parts, its start and stop, and what the rest of the service asks of it."""

import asyncio
import logging
import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress

from fairwarning.core.commands import Command, Poll, validate
from fairwarning.core.errors import Bug, Refused, StoreDamaged, Unavailable
from fairwarning.core.model import Operation, Scope
from fairwarning.machines.driver import Driver
from fairwarning.service import failpoints
from fairwarning.service.clock import Clock, VirtualClock
from fairwarning.service.clock_monitor import ClockMonitor
from fairwarning.service.deliveries import DeliveryLog
from fairwarning.service.documents import DocumentCache, PublishedScope
from fairwarning.service.faults import FaultRules
from fairwarning.service.following import ChangeFollower
from fairwarning.service.health import PartHealth
from fairwarning.service.metrics import Metric, gauge
from fairwarning.service.polls import PollLog
from fairwarning.service.read_share import ReadShare
from fairwarning.service.reader import FleetReader
from fairwarning.service.refusals import RefusalLog
from fairwarning.service.writer.command_queue import CommandQueue
from fairwarning.service.writer.command_writer import CommandWriter
from fairwarning.service.writer.committer import CACHED_ENTITIES, Committer
from fairwarning.service.writer.publisher import Publisher
from fairwarning.service.writer.set_aside import SetAsideEntities
from fairwarning.service.writer.store_check import StoreCheck
from fairwarning.store.store import ClockReading, Store

log = logging.getLogger(__name__)

_COMPARE_SECONDS = 1.0  # between two comparisons of the clocks
_LOOK_SECONDS = 5.0  # between two looks at what other processes have set aside


class Fleet:
    """A fleet of machines: takes commands, publishes documents, runs timers and impacts."""

    def __init__(
        self, store: Store, clock: Clock, driver: Driver, *, cached: int = CACHED_ENTITIES
    ) -> None:
        self.store = store
        self.clock = clock
        self._queue = CommandQueue()
        share = ReadShare(self._queue.is_idle)
        self.reader = FleetReader(store, share, 0 if store.shared else cached)
        self.documents = DocumentCache(self._load_scopes)
        self._committer = Committer(store, clock, self.reader, self.documents, cached=cached)
        self.store_check = StoreCheck(self._committer.check_store)
        self._shared = store.shared
        self.settled = self._queue.settled
        self.check_writing = self._committer.check_writing
        self.polls = PollLog(self._queue.post, self._queue.wake)
        self.deliveries = DeliveryLog(self._queue.post, lambda: clock.rate)
        self.refusals = RefusalLog(self._queue.post, clock.now)
        self._advancing = asyncio.Lock()
        self.faults = FaultRules(clock.now, shared=bool(self._shared))
        self.publisher = Publisher(self.documents, self.polls)
        self.publisher.followers.append(self.deliveries.follow)
        self.set_aside = SetAsideEntities(store)
        self.writer = CommandWriter(
            self._queue,
            self._committer,
            self.publisher,
            store=store,
            clock=clock,
            driver=driver,
            documents=self.documents,
            polls=self.polls,
            set_aside=self.set_aside,
        )
        self.following = self.writer.following = (
            ChangeFollower(store, self._shared, self.documents, self._queue.wake, self._synchronize)
            if self._shared
            else None
        )
        self._tasks: list[asyncio.Task[None]] = []
        self.clock_monitor = ClockMonitor(
            clock, "the database's clock" if self._shared else "the host's clock"
        )
        self.new_secret: Callable[[], str] = secrets.token_hex
        """Makes the secret of a new fleet. It goes into event ids: none can be guessed (E2)."""

    @property
    def broken(self) -> StoreDamaged | None:
        """The violated invariant that stopped writes (IS4); None while commands are decided."""
        return self._committer.broken

    async def _load_scopes(self, names: Sequence[str]) -> dict[str, Scope]:
        with self.reader.share.write():  # machines that poll wait for it
            entities = await self.reader.read_all([(Scope, name) for name in names])
        return {name: scope for (_, name), scope in entities.items() if isinstance(scope, Scope)}

    # --- Start and stop ---

    async def start(self) -> None:
        """Open the store and resume clock, impacts and timers (E9)."""
        try:
            await self.open()
            self._tasks.append(asyncio.create_task(self.writer.run(), name="fleet writer"))
            if self.following:
                self._tasks.append(asyncio.create_task(self.following.run(), name="fleet follower"))
                await self.following.wait_until_caught_up()
                self._tasks.append(asyncio.create_task(self._look_aside(), name="fleet set-aside"))
            elif self.clock.host_time:
                self._tasks.append(asyncio.create_task(self._watch_clock(), name="fleet clock"))
            await self.set_aside.release_those_of_other_versions(self.submit)
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
        await self.writer.resume()
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

    async def stop(self) -> None:
        """Finish accepted commands, write what is buffered, and close the store."""
        self.polls.record_all()
        self.deliveries.write()
        self._queue.stop()
        await self.settled()
        failpoints.hit("stop.drained")
        await self._close()

    async def _close(self) -> None:
        await self.writer.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self.store.close()

    # --- Commands ---

    async def submit(self, command: Command) -> Operation | None:
        """Decide a command; return its operation, if any, once it is durable and visible."""
        validate(command)
        self._committer.check_writing()
        self.deliveries.write()  # journal deliveries before the approval that follows them
        return await self._queue.submit(command)

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

    async def _look_aside(self) -> None:
        while True:
            try:
                await self.set_aside.load()
            except Unavailable:
                pass  # the change feed reports it
            except Exception:
                log.exception("cannot read what is set aside; trying again")
            await asyncio.sleep(_LOOK_SECONDS)

    async def _watch_clock(self) -> None:
        while True:
            try:
                await self.compare_clocks()
            except Exception:
                log.exception("cannot compare the clocks; trying again")
            await asyncio.sleep(_COMPARE_SECONDS)

    async def compare_clocks(self) -> None:
        """Compare fleet time with the host's clock, and remember a new difference."""
        has_to_be_stored = self.clock_monitor.compare(self._committer.stored_clock)
        if self.clock_monitor.jump_seconds:
            self.polls.jumped_at = self.clock.now()
        if has_to_be_stored:
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
        elif not self._waits_for_retry(scope):
            with suppress(Bug):  # it is logged, and its document is as it was
                await self.submit(Poll(scope=scope, actor="machine"))
        await self._ready(published)
        return published

    def _waits_for_retry(self, scope: str) -> bool:
        """Whether a bug has set a scope aside: each attempt is logged, and clients poll often."""
        aside = self.set_aside.get((Scope, scope))
        return aside is not None and self.clock.now() < aside.retry_at

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
        """Metrics about commands, documents and clocks."""
        stale = self.documents.is_stale()
        return [
            *self.writer.metrics(),
            gauge("fairwarning_documents_stale", "1 while polls are refused as too old.", stale),
            *self.clock_monitor.metrics(),
        ]

    def health(self) -> list[PartHealth]:
        """How store, writer and clock are."""
        store = self.following or self.store_check
        return [store.health(), self.writer.health(), self.clock_monitor.health()]

    async def polled_at(self, scopes: Sequence[Scope]) -> list[float]:
        """The last poll of each scope, or 0. Another process may have had one since."""
        recorded = await self.store.recorded_polls([scope.id for scope in scopes])
        return [
            max(scope.polled_at, self.polls.last(scope.id), recorded.get(scope.id, 0.0))
            for scope in scopes
        ]
