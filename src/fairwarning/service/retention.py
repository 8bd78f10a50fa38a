"""Drops what is older than its retention period, so that neither files nor memory grow for ever.

Journal lines, ended operations and rollouts are dropped by age, removed entities and the cursors of
removed webhooks shortly after their removal. Work is done in small parts with pauses in between, so
that no command waits for long.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from time import monotonic

from fairwarning.core.commands import Drop, DropLane, DropOperation, DropRollout
from fairwarning.core.errors import FairwarningError, Refused, Unavailable
from fairwarning.core.model import Lane, Operation, Ref, Scope
from fairwarning.service.config.settings import JournalSettings, OperationSettings
from fairwarning.service.fleet import Fleet
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
        await self._forget_deliveries()
        if not await self._store.claim_duty(_DUTY):
            return
        lines = await self._drop_lines()
        entities = await self._drop_ended()
        tombstones = await self._drop_tombstones()
        cursors = await drop_orphaned_cursors(self._fleet)
        if lines or entities or tombstones or cursors:
            log.info(
                "dropped %d journal lines, %d operations and rollouts, the remains of %d removed "
                "entities and %d webhooks",
                lines, entities, tombstones, cursors,
            )  # fmt: skip

    async def _drop_lines(self) -> int:
        if not self._line_days:
            return 0
        before = self._time_before(self._line_days)
        try:
            return await _repeat(lambda: self._store.drop_old_lines(before))
        except Unavailable as error:
            if error.code != "JournalInUse":
                raise
            log.warning("cannot drop old journal lines, will retry: %s", error.message)
            return 0

    async def _drop_ended(self) -> int:
        if not self._operation_days:
            return 0
        before = self._time_before(self._operation_days)
        return await _repeat(lambda: self._drop_some(before))

    async def _drop_some(self, before: float) -> int:
        commands = await next_drops(self._store, before)
        submitted = [self._fleet.submit(command) for command in commands]
        results = await asyncio.gather(*submitted, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, Refused):
                raise result
        return sum(not isinstance(result, BaseException) for result in results)

    async def _drop_tombstones(self) -> int:
        now, position = self._fleet.clock.now(), await self._store.position()
        if self._seen is None:
            self._seen = now, position
        seen_at, until = self._seen
        if now - seen_at < _TOMBSTONE_SECONDS:
            return 0
        dropped = await _repeat(lambda: self._store.drop_tombstones(until))
        self._seen = now, position
        return dropped

    async def _forget_deliveries(self) -> None:
        """Forget deliveries of events that have ended, of scopes that no client reads here.

        The fleet hears about their changes only if this process made them.
        """
        documents, deliveries = self._fleet.documents, self._fleet.deliveries
        refs: list[Ref] = [
            (Scope, name) for name in deliveries.scopes() if documents.get(name) is None
        ]
        for first in range(0, len(refs), _DROPPED_AT_ONCE):
            page = refs[first : first + _DROPPED_AT_ONCE]
            for ref, scope in (await self._fleet.reader.read_all(page)).items():
                assert scope is None or isinstance(scope, Scope)
                deliveries.follow(ref[1], scope)

    def _time_before(self, days: int) -> float:
        return self._fleet.clock.now() - days * _DAY_SECONDS


async def next_drops(store: Store, before: float) -> Sequence[Drop]:
    """Commands that drop the first entities that ended before a time.

    A rollout comes after its operations and its lanes, so that its name can be used again.
    """
    commands: list[Drop] = []
    for kind, name in await store.ended_entities(before, _DROPPED_AT_ONCE):
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


async def _lanes(store: Store, rollout: str) -> list[str]:
    """Some lanes that are left of a rollout."""
    prefix = f"{rollout}/"
    lanes = await store.list_ids(Lane, prefix, _DROPPED_AT_ONCE)
    return [lane for lane in lanes if lane.startswith(prefix)]


async def _repeat(drop: Callable[[], Awaitable[int]]) -> int:
    """Drop until nothing is left; return how many. Uses at most half of the time."""
    total = 0
    while True:
        began = monotonic()
        dropped = await drop()
        if not dropped:
            return total
        total += dropped
        await asyncio.sleep(monotonic() - began)
