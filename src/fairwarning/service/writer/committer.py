"""Decides a batch of commands in order and commits it as one transaction.

If another process has changed an entity that a decision was based on, the batch is decided again
(IK1).
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from fairwarning.core import cascade
from fairwarning.core.cascade import EntityNotLoaded, Outcome
from fairwarning.core.commands import (
    Command,
    CreateSet,
    ResourceCommand,
    operation_of,
    target_of,
)
from fairwarning.core.errors import (
    AddressTaken,
    Bug,
    Conflict,
    FairwarningError,
    StoreDamaged,
    Unavailable,
)
from fairwarning.core.growing import groups_of_new_set
from fairwarning.core.model import Entity, EventStatus, Operation, Ref, Scope
from fairwarning.core.record import changed
from fairwarning.service import failpoints
from fairwarning.service.clock import Clock
from fairwarning.service.documents import DocumentCache
from fairwarning.service.reader import FleetReader
from fairwarning.service.writer.batch import CommandBatch, PendingCommand, size_of
from fairwarning.service.writer.set_aside import report_of
from fairwarning.store.differences import stale_version
from fairwarning.store.store import Batch, Store

log = logging.getLogger(__name__)

CACHED_ENTITIES = 4096
_ATTEMPTS = 10  # to decide a batch while other processes change its entities
_ROWS = 4096  # of a transaction, unless a single command writes more: half a second's work
_FEW_ROWS = 512  # fewer are not why the store is slow


class Committer:
    """Decides and commits batches. `Fleet` publishes the result and hands impacts over."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        reader: FleetReader,
        documents: DocumentCache,
        *,
        cached: int = CACHED_ENTITIES,
    ) -> None:
        self.broken: StoreDamaged | None = None  # once set, no command is decided (IS4)
        self.commits = 0
        self.bugs = 0
        self.secret = ""  # of the fleet; see `Fleet.new_secret`
        self._store = store
        self._clock = clock
        self._documents = documents
        self._cache = reader.cache
        self._shared = store.shared is not None
        self._cached = 0 if self._shared else cached  # other processes may change a cached entity
        self._rows = _ROWS  # fewer for a while after the store was too slow
        self.stored_clock: str | None = ""
        """The state of the clock in the store; None if unknown, after a commit that failed."""
        self.unclear: set[Ref] = set()
        """What commits of unclear outcome may have changed; a shared store reports its changes."""

    def check_writing(self) -> None:
        """Raise `Unavailable` once writes have stopped."""
        if self.broken:
            raise Unavailable("WritesStopped", f"writes have stopped; reads go on ({self.broken})")

    async def decide(self, waiting: Sequence[PendingCommand]) -> CommandBatch:
        """Decide and commit these commands; each then holds its operation or its error.

        If they write too much for one transaction, the last ones are left undecided.

        Raises `Conflict` when one command prevents the batch from being committed. A batch that
        lost a race against another process is decided again, a few times; one that gives machines
        addresses that others have, with the next ones.
        """
        taken: set[str] = set()
        while True:
            try:
                return await self._decide_all(waiting, taken)
            except AddressTaken as conflict:
                if conflict.address in taken:
                    raise  # the command itself names the address
                taken.add(conflict.address)
                for address in await self._store.locate_machines(conflict.tried):
                    taken.add(str(address))

    async def _decide_all(
        self, waiting: Sequence[PendingCommand], taken: Collection[str]
    ) -> CommandBatch:
        for attempt in range(_ATTEMPTS):
            work = CommandBatch()
            for pending in waiting:
                pending.operation = pending.error = None
            try:
                with self._forgotten_on_failure(work):
                    await self._prefetch(waiting, work, afresh=attempt > 0)
                    await self._decide_each(waiting, work, taken)
                    await self._commit(work)
            except Unavailable as error:
                last = attempt == _ATTEMPTS - 1
                if error.code == "StoreSlow" and not last and self._allow_fewer_rows(waiting, work):
                    continue
                left = work.left if error.code == "StoreSlow" else 0  # these can still succeed
                waiting = waiting[: len(waiting) - left]
                for pending in waiting:
                    pending.error = error
                return CommandBatch(left)
            except Conflict as conflict:
                if isinstance(conflict, AddressTaken):
                    conflict.tried = _new_addresses(work)
                if not self._shared or conflict.code != "Stale" or attempt == _ATTEMPTS - 1:
                    raise
            else:
                self._rows = min(_ROWS, self._rows + self._rows // 8 + 1)
                return work
        raise AssertionError("unreachable")

    @contextmanager
    def _forgotten_on_failure(self, work: CommandBatch) -> Iterator[None]:
        """After a failure, what the batch would have changed is read from the store again."""
        try:
            yield
        except Exception:
            for ref in work.changes:
                self._cache.pop(ref, None)
            raise

    def _allow_fewer_rows(self, waiting: Sequence[PendingCommand], work: CommandBatch) -> bool:
        """Halve the rows of a transaction; return False if it was small or a single command."""
        if work.size <= _FEW_ROWS or len(waiting) - work.left == 1:
            return False
        self._rows = work.size // 2
        return True

    async def _decide_each(
        self, waiting: Sequence[PendingCommand], work: CommandBatch, taken: Collection[str]
    ) -> None:
        broken = self.broken
        for number, pending in enumerate(waiting):
            try:
                if broken:
                    raise Unavailable("WritesStopped", f"writes have stopped ({broken})")
                outcome = await self._decide(pending.command, work, taken)
            except FairwarningError as error:
                pending.error = error
                broken = error if isinstance(error, StoreDamaged) else broken
                if isinstance(error, Bug):
                    await self._set_aside(pending.command, error, work)
            else:
                size = size_of(outcome)
                if work.size and work.size + size > self._rows:
                    work.left = len(waiting) - number  # this one is decided again
                    return
                work.add(outcome, size)
                pending.operation = outcome.operation
                self._promise(outcome)
                if size > _FEW_ROWS:
                    await asyncio.sleep(0)  # it took long: let polls be answered

    def _promise(self, outcome: Outcome) -> None:
        """Tell the clock what is announced, before anything can move it (E11)."""
        for before, after in outcome.changes.values():
            if isinstance(after, Scope) and not (
                isinstance(before, Scope)
                and before.events is after.events
                and before.impacts is after.impacts
            ):
                self._clock.promise(_latest_deadline(after))

    async def _prefetch(
        self, waiting: Sequence[PendingCommand], work: CommandBatch, *, afresh: bool
    ) -> None:
        """Load the entities that the commands name, and the operations in progress on them."""
        wanted: dict[Ref, None] = {}
        for pending in waiting:
            _add_targets(pending.command, wanted)
            if operation := operation_of(pending.command):
                wanted[Operation, operation] = None
        missing = [
            ref
            for ref in wanted
            if ref not in self._cache and (afresh or not self._use_published(ref, work))
        ]
        if missing:
            await self._load(missing, work)
        if self._shared and (more := _operations_in_progress(work)):
            await self._load(more, work)

    def _use_published(self, ref: Ref, work: CommandBatch) -> bool:
        """Use a published scope, which is in memory as committed; return whether there is one.

        If another process has changed it since, the commit or `_check_moment` finds out.
        """
        published = self._documents.get(ref[1]) if ref[0] is Scope else None
        if published is None or published.scope is None:
            return False
        work.loaded[ref] = published.scope
        work.moments = 2
        return True

    async def _load(self, refs: list[Ref], work: CommandBatch) -> None:
        work.moments += 1
        work.loaded.update(await self._store.load(refs))

    async def _decide(
        self, command: Command, work: CommandBatch, taken: Collection[str]
    ) -> Outcome:
        try:
            return await self._decide_one(command, work, taken)
        except FairwarningError as error:
            if isinstance(error, Bug):
                raise _undecided(command) from error
            raise
        except Exception as error:
            raise _undecided(command) from error

    async def _decide_one(
        self, command: Command, work: CommandBatch, taken: Collection[str]
    ) -> Outcome:
        def is_loaded(ref: Ref) -> bool:
            return ref in work.changes or ref in self._cache or ref in work.loaded

        def get(ref: Ref) -> Entity | None:
            change = work.changes.get(ref)
            if change:
                return change[1]
            entity = self._cache.get(ref)
            if entity is None:
                try:
                    return work.loaded[ref]
                except KeyError:
                    raise EntityNotLoaded(ref) from None
            return entity

        while True:
            try:
                now, ahead = self._clock.now(), self._clock.ahead_seconds()
                return cascade.run(command, now, get, self.secret, taken, clock_ahead=ahead)
            except EntityNotLoaded as missing:
                later = (ref for ref in dict.fromkeys(missing.next) if not is_loaded(ref))
                await self._load(list(dict.fromkeys((missing.ref, *later))), work)

    async def _set_aside(self, command: Command, bug: Bug, work: CommandBatch) -> None:
        """Let the same transaction record that a command could not be decided."""
        work.bugs.append(bug)
        ref = target(command)
        report = report_of(ref, command, bug.__cause__ or bug)
        try:
            outcome = await self._decide(report, work, ())
        except Bug:
            work.loaded[ref] = None  # it cannot be read
            try:
                outcome = await self._decide(report, work, ())
            finally:
                del work.loaded[ref]
        work.add(outcome, size_of(outcome))

    async def set_aside(self, command: Command, cause: Exception) -> tuple[Bug, CommandBatch]:
        """Set the entity of a command aside that prevents any commit."""
        bug = _undecided(command)
        bug.__cause__ = cause
        work = CommandBatch()
        await self._set_aside(command, bug, work)
        await self._commit(work)
        return bug, work

    async def _commit(self, work: CommandBatch) -> None:
        if work.changes or work.lines:
            failpoints.hit("commit.before")
            work.next_due = await self._write(work.batch(self._clock.now(), self._notes()))
            work.committed = True
            failpoints.hit("commit.after")
            self.commits += 1
            self._keep(work)
        else:
            await self._check_moment(work)
        for bug in work.bugs:  # decided on what was really stored
            self.bugs += 1
            log.error("a bug: %s", bug, exc_info=bug.__cause__ or bug)

    async def check_store(self) -> None:
        """Write the clock's state; raises `Unavailable` if the store cannot be written."""
        await self._write(Batch(self._clock.now(), notes={"clock": self._clock.state()}))

    async def _check_moment(self, work: CommandBatch) -> None:
        """Entities that were read, but not changed, must all be as of one moment (IK1)."""
        if self._shared and work.moments > 1:
            again = await self._store.load(work.loaded)
            for ref, entity in work.loaded.items():
                if again[ref] is not entity and again[ref] != entity:
                    raise stale_version(ref)

    async def correct_due(self, commands: Iterable[Command], told_at: float) -> CommandBatch:
        """Write entities again that are stored as due, and did not change when told so at a time.

        The stored time is that of an earlier version of the rules, or the entity has changed
        meanwhile. An entity that really was due at that time is set aside.
        """
        work = CommandBatch()
        due = {target(command): command for command in commands}
        for ref, entity in (await self._store.load(due)).items():
            moment = cascade.due(entity) if entity else None
            if moment is not None and moment <= told_at:
                await self._set_aside(due[ref], Bug("it is due, but does not change"), work)
            elif entity:
                work.changes[ref] = (entity, changed(entity, version=entity.version + 1))
        await self._commit(work)
        return work

    def _keep(self, work: CommandBatch) -> None:
        for ref, entity in work.loaded.items():
            if entity is not None:
                self._cache.setdefault(ref, entity)
        for ref, (_, after) in work.changes.items():
            self._cache.pop(ref, None)
            if after is not None:
                self._cache[ref] = after
        while len(self._cache) > self._cached:
            self._cache.popitem(last=False)

    def restore_clock(self, state: str, last: float) -> None:
        """Let the clock continue after an earlier process."""
        self.stored_clock = state
        self._clock.restore(state, last)

    async def store_clock(self) -> None:
        """Make the state of the clock durable."""
        if notes := self._notes():
            await self._write(Batch(self._clock.now(), notes=notes))

    async def _write(self, batch: Batch) -> float | None:
        """Commit; return when the next timer is due."""
        self.check_writing()
        try:
            next_due = await self._store.commit(batch)
        except BaseException as error:
            self.stored_clock = None  # it may have taken effect
            if isinstance(error, Unavailable) and error.code == "StoreUnclear" and not self._shared:
                self.unclear.update(batch.changes)
            raise
        self.stored_clock = batch.notes.get("clock", self.stored_clock)
        return next_due

    def _notes(self) -> dict[str, str]:
        """The clock's state, if it is not in the store yet."""
        state = self._clock.state()
        return {"clock": state} if not self._shared and state != self.stored_clock else {}


def _undecided(command: Command) -> Bug:
    """What the caller of a command is told: no detail, which may be about other tenants."""
    return Bug(
        f"{type(command).__name__} could not be decided because of a bug in the service. Nothing "
        f"was changed; {target_of(command)!r} is set aside, and the operator can see why"
    )


def _new_addresses(work: CommandBatch) -> tuple[str, ...]:
    """The addresses of the machines that a batch adds."""
    return tuple(
        machine.address
        for before, after in work.changes.values()
        if isinstance(after, Scope)
        for name, machine in after.machines.items()
        if machine.address and not (isinstance(before, Scope) and name in before.machines)
    )


def _latest_deadline(scope: Scope) -> float:
    """The latest time for which an event or the end of an impact is announced, or 0."""
    events = [e.not_before for e in scope.events.values() if e.status is EventStatus.SCHEDULED]
    impacts = [impact.deadline for impact in scope.impacts.values() if impact.deadline]
    return max((*events, *impacts), default=0.0)


def _operations_in_progress(work: CommandBatch) -> list[Ref]:
    """The operations in progress on the loaded scopes, to load them in one round trip."""
    found: dict[Ref, None] = {}
    for entity in work.loaded.values():
        if isinstance(entity, Scope):
            names = [event.operation for event in entity.events.values()]
            names += [impact.operation for impact in entity.impacts.values()]
            found.update(((Operation, name), None) for name in names if name)
    return [ref for ref in found if ref not in work.loaded]


def target(command: Command) -> Ref:
    """The entity that a command addresses."""
    return command.on, target_of(command)


def _add_targets(command: Command, wanted: dict[Ref, None]) -> None:
    wanted[target(command)] = None
    if isinstance(command, CreateSet):
        wanted.update(((Scope, name), None) for name in groups_of_new_set(command))
    if isinstance(command, ResourceCommand):
        for following in command.follow:
            _add_targets(following, wanted)
