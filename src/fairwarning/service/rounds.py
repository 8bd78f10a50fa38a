"""One round of the writer: decide what waits, in order, and commit it as one transaction.

Where other processes write too, whatever was decided on something old is decided again (IK1).
"""

from collections.abc import Sequence

from fairwarning.core import cascade
from fairwarning.core.cascade import Missing, Outcome
from fairwarning.core.commands import Command, ResourceCommand, operation_of
from fairwarning.core.errors import Broken, Conflict, FairwarningError, Unavailable
from fairwarning.core.model import Entity, Operation, Ref, Scope
from fairwarning.service import failpoints
from fairwarning.service.batch import Waiting, Work
from fairwarning.service.clock import Clock
from fairwarning.service.documents import Documents
from fairwarning.service.reads import Reads
from fairwarning.store.differences import stale
from fairwarning.store.store import Store

CACHED_ENTITIES = 4096
_ATTEMPTS = 10  # to decide on what other processes change meanwhile


class Rounds(Reads):
    """Decides and commits. What follows from that is the fleet's."""

    def __init__(self, store: Store, clock: Clock, cached: int) -> None:
        super().__init__(store)
        self.clock = clock
        self.documents = Documents(self._load_scope)
        self.broken: Broken | None = None
        self._shared = store.shared
        self._cached = 0 if self._shared else cached  # where others write, what is kept is old
        self._commits = 0

    async def _load_scope(self, scope: str) -> Scope | None:
        return await self.read(Scope, scope)

    def _check_writing(self) -> None:
        if self.broken:
            raise Unavailable("WritesStopped", f"writes have stopped; reads go on ({self.broken})")

    async def _decide(self, waiting: Sequence[Waiting]) -> Work:
        """Decide all that waits; each has its operation or its error then.

        Raises `Conflict` when one of them spoils the batch. With several processes, those that are
        in each other's way are only ever a few: whoever comes too late decides again.
        """
        for attempt in range(_ATTEMPTS):
            work = Work()
            for one in waiting:
                one.operation = one.error = None
            try:
                await self._prefetch(waiting, work, afresh=attempt > 0)
                await self._decide_each(waiting, work)
                await self._commit(work)
            except Unavailable as error:
                for one in waiting:
                    one.error = error
                return Work()
            except Conflict as conflict:
                for ref in work.changes:
                    self._cache.pop(ref, None)
                if not self._shared or conflict.code != "Stale" or attempt == _ATTEMPTS - 1:
                    raise
            else:
                return work
        raise AssertionError("unreachable")

    async def _decide_each(self, waiting: Sequence[Waiting], work: Work) -> None:
        broken = self.broken
        for one in waiting:
            try:
                if broken:
                    raise Unavailable("WritesStopped", f"writes have stopped ({broken})")
                outcome = await self._decide_one(one.command, work)
            except FairwarningError as error:
                one.error = error
                broken = error if isinstance(error, Broken) else broken
            else:
                work.add(outcome)
                one.operation = outcome.operation

    async def _prefetch(self, waiting: Sequence[Waiting], work: Work, *, afresh: bool) -> None:
        """Have in one go what the commands name themselves, and what is under way there."""
        wanted: dict[Ref, None] = {}
        for one in waiting:
            _name(one.command, wanted)
            if operation := operation_of(one.command):
                wanted[Operation, operation] = None
        missing = [
            ref
            for ref in wanted
            if ref not in self._cache and (afresh or not self._shown(ref, work))
        ]
        if missing:
            await self._load(missing, work)
        if self._shared and (more := _under_way(work)):
            await self._load(more, work)

    def _shown(self, ref: Ref, work: Work) -> bool:
        """Whether somebody reads it: then it is here as it was committed.

        Another process may have changed it since. Then the commit, or `_check_moment`, says so.
        """
        published = self.documents.get(ref[1]) if ref[0] is Scope else None
        if published is None or published.scope is None:
            return False
        work.loaded[ref] = published.scope
        work.moments = 2
        return True

    async def _load(self, refs: list[Ref], work: Work) -> None:
        work.moments += 1
        work.loaded.update(await self.store.load(refs))

    async def _decide_one(self, command: Command, work: Work) -> Outcome:
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

        while True:
            try:
                return cascade.run(command, self.clock.now(), get)
            except Missing as missing:
                await self._load([missing.ref], work)
            except FairwarningError:
                raise
            except Exception as bug:
                raise Broken("Bug", f"{type(command).__name__} could not be decided") from bug

    async def _commit(self, work: Work) -> None:
        if not work.changes and not work.lines:
            await self._check_moment(work)
            return
        failpoints.hit("commit.before")
        batch = work.batch(self.clock.now(), self._notes())
        work.next_due = await self.store.commit(batch)
        work.committed = True
        failpoints.hit("commit.after")
        self._commits += 1
        self._keep(work)

    async def _check_moment(self, work: Work) -> None:
        """What was decided on, without any change, must have been so at one moment (IK1)."""
        if self._shared and work.moments > 1:
            again = await self.store.load(work.loaded)
            for ref, entity in work.loaded.items():
                if again[ref] is not entity and again[ref] != entity:
                    raise stale(ref)

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

    def _notes(self) -> dict[str, str]:
        state = self.clock.state()
        return {"clock": state} if state else {}


def _under_way(work: Work) -> list[Ref]:
    """The operations that commands on these scopes may be about: one round trip for all."""
    found: dict[Ref, None] = {}
    for entity in work.loaded.values():
        if isinstance(entity, Scope):
            names = [one.operation for one in entity.events.values()]
            names += [one.operation for one in entity.impacts.values()]
            found.update(((Operation, name), None) for name in names if name)
    return [ref for ref in found if ref not in work.loaded]


def target(command: Command) -> Ref:
    """The entity that a command is for."""
    return command.on, getattr(command, command.target)


def _name(command: Command, wanted: dict[Ref, None]) -> None:
    wanted[target(command)] = None
    if isinstance(command, ResourceCommand):
        for one in command.follow:
            _name(one, wanted)
