"""Drops what is older than its retention period, so that neither files nor memory grow for ever.

Journal lines, ended operations and rollouts are dropped by age, removed entities and the cursors of
removed webhooks shortly after their removal. Work is done in small parts with pauses in between, so
that no command waits for long.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from time import monotonic

from fairwarning.core.commands import Drop, DropLane, DropOperation, DropRollout, target_of
from fairwarning.core.errors import FairwarningError, Refused, StoreDamaged, Unavailable
from fairwarning.core.model import Lane, Operation, Ref, Rollout, Scope
from fairwarning.core.printable import printable
from fairwarning.service.config.settings import JournalSettings, OperationSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.health import PartHealth
from fairwarning.service.webhooks.cursors import drop_orphaned_cursors
from fairwarning.store.store import Store

log = logging.getLogger(__name__)

_DUTY = "journal"
_DAY_SECONDS = 24 * 3600
_CHECK_SECONDS = 3600.0  # by the fleet's clock; data may be up to an hour older than its setting
_LEAST_WAIT_SECONDS = 1.0  # in real time, if virtual time runs fast
_TOMBSTONE_SECONDS = 3600.0  # for other processes to learn about a removal
_DROPPED_AT_ONCE = 64  # entities per transaction: commands wait for one at most


class Retention:
    """The retention of one fleet. Of several processes, one has the duty."""

    def __init__(
        self, fleet: Fleet, journal: JournalSettings, operations: OperationSettings
    ) -> None:
        self._fleet = fleet
        self._store = fleet.store
        self._line_days = journal.keep_days
        self._operation_days = operations.keep_days
        self._problem = ""
        self._seen: tuple[float, int] | None = None  # a time, and the change feed's position then

    async def run(self) -> None:
        """Drop old data until cancelled."""
        while True:
            try:
                await self.drop_old()
            except FairwarningError as error:
                log.warning("cannot drop old data, will retry: %s", error.message)
            except Exception:
                log.exception("cannot drop old data, will retry")
            await self._wait()

    def health(self) -> PartHealth:
        """Whether something met a bug when it was to be dropped. `Fleet` reports the store."""
        problem = f"old data cannot be dropped, retrying: {self._problem}" if self._problem else ""
        return PartHealth(name="retention", problem=problem)

    async def _wait(self) -> None:
        passed = asyncio.Event()
        alarm = self._fleet.clock.call_at(self._fleet.clock.now() + _CHECK_SECONDS, passed.set)
        try:
            await passed.wait()
        finally:
            alarm.cancel()
        await asyncio.sleep(_LEAST_WAIT_SECONDS)

    async def drop_old(self) -> None:
        """Drop everything that is old; data in the store only if this process has that duty."""
        problems: list[str] = []
        await _attempt(self._forget_deliveries, problems)
        if self._fleet.broken is None and await self._store.claim_duty(_DUTY):
            dropped = [
                await _attempt(drop, problems)
                for drop in (
                    self._drop_lines,
                    lambda: self._drop_ended(problems),
                    self._drop_tombstones,
                    lambda: drop_orphaned_cursors(self._fleet),
                )
            ]
            if any(dropped):
                log.info(
                    "dropped %d journal lines, %d operations and rollouts, the remains of %d "
                    "removed entities and %d webhooks",
                    *dropped,
                )
        self._problem = "; ".join(problems)

    async def _drop_lines(self) -> int:
        if not self._line_days:
            return 0
        before = self._time_before(self._line_days)
        return await self._repeat(lambda: self._store.drop_old_lines(before))

    async def _drop_ended(self, problems: list[str]) -> int:
        if not self._operation_days:
            return 0
        before = self._time_before(self._operation_days)
        kept: dict[Ref, BaseException] = {}  # what cannot be dropped in this pass
        dropped = await self._repeat(lambda: self._drop_some(before, kept))
        bugs = [ref for ref, error in kept.items() if not isinstance(error, Refused)]
        if bugs:
            (kind, name), count = bugs[0], len(bugs)
            text = f"{count} operations or rollouts, the first {kind.__name__} {name!r}"
            log.error("cannot drop %s: %s", text, kept[bugs[0]])
            problems.append(text)
        return dropped - len(kept)

    async def _drop_some(self, before: float, kept: dict[Ref, BaseException]) -> int:
        commands = await next_drops(self._store, before, kept)
        submitted = [self._fleet.submit(command) for command in commands]
        results = await asyncio.gather(*submitted, return_exceptions=True)
        for command, result in zip(commands, results, strict=True):
            if isinstance(result, Unavailable | StoreDamaged):
                raise result
            if isinstance(result, BaseException):
                kept[_ended_entity(command)] = result
        return len(commands)

    async def _drop_tombstones(self) -> int:
        now, position = self._fleet.clock.now(), await self._store.position()
        if self._seen is None:
            self._seen = now, position
        seen_at, until = self._seen
        if now - seen_at < _TOMBSTONE_SECONDS:
            return 0
        dropped = await self._repeat(lambda: self._store.drop_tombstones(until))
        self._seen = now, position
        return dropped

    async def _repeat(self, drop: Callable[[], Awaitable[int]]) -> int:
        """Drop until nothing is left or writes stop; return how many. Uses half of the time."""
        total = 0
        while self._fleet.broken is None:
            began = monotonic()
            dropped = await drop()
            if not dropped:
                break
            total += dropped
            await asyncio.sleep(monotonic() - began)
        return total

    async def _forget_deliveries(self) -> int:
        """Forget deliveries of events that have ended, of scopes that no client reads here.

        The fleet hears about their changes only if this process made them.
        """
        documents, deliveries = self._fleet.documents, self._fleet.deliveries
        refs: list[Ref] = [
            (Scope, name) for name in deliveries.scopes() if documents.get(name) is None
        ]
        for first in range(0, len(refs), _DROPPED_AT_ONCE):
            page = refs[first : first + _DROPPED_AT_ONCE]
            for ref, scope in (await self._fleet.reader.read_each(page)).items():
                assert scope is None or isinstance(scope, Scope)
                deliveries.follow(ref[1], scope)
        return 0

    def _time_before(self, days: int) -> float:
        clock = self._fleet.clock  # while it is ahead of wall time, nothing is as old as it says
        return clock.now() - max(clock.ahead_seconds(), 0) - days * _DAY_SECONDS


async def next_drops(store: Store, before: float, kept: Collection[Ref] = ()) -> Sequence[Drop]:
    """Commands that drop the first entities that ended before a time, without some.

    A rollout comes after its operations and its lanes, so that its name can be used again.
    """
    commands: list[Drop] = []
    for kind, name in await store.ended_entities(before, _DROPPED_AT_ONCE + len(kept)):
        if (kind, name) in kept:
            continue
        if kind is Operation:
            commands.append(DropOperation(operation=name, before=before))
        else:
            lanes = await _lanes(store, name)
            commands += [DropLane(lane=lane, before=before) for lane in lanes]
            if len(lanes) == _DROPPED_AT_ONCE:
                break
            commands.append(DropRollout(rollout=name, before=before))
        if len(commands) >= _DROPPED_AT_ONCE:
            break
    return commands


def _ended_entity(command: Drop) -> Ref:
    """The entity because of whose end a command drops something."""
    if isinstance(command, DropLane):
        return Rollout, command.lane.rpartition("/")[0]
    return command.on, target_of(command)


async def _lanes(store: Store, rollout: str) -> list[str]:
    """Some lanes that are left of a rollout."""
    prefix = f"{rollout}/"
    lanes = await store.list_ids(Lane, prefix, _DROPPED_AT_ONCE)
    return [lane for lane in lanes if lane.startswith(prefix)]


async def _attempt(drop: Callable[[], Awaitable[int]], problems: list[str]) -> int:
    """Do one part of the work, and return how much was dropped; if it fails, the others go on."""
    try:
        return await drop()
    except FairwarningError as error:
        log.warning("cannot drop old data, will retry: %s", error.message)
    except Exception as error:
        log.exception("cannot drop old data, will retry")
        problems.append(printable(str(error)))
    return 0
