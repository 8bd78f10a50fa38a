"""The commands for entities that are due."""

import asyncio
from collections.abc import Mapping, Sequence

from fairwarning.core.commands import AdvanceTime, Command, Poll, RetryLane
from fairwarning.core.growing import all_groups
from fairwarning.core.lifecycle import idle_at
from fairwarning.core.model import Entity, Lane, Ref, Scope
from fairwarning.service.clock import Clock
from fairwarning.service.documents import DocumentCache
from fairwarning.service.polls import PollLog
from fairwarning.service.writer.timers import Timers
from fairwarning.store.store import Store

_CONTENDED_SECONDS = 0.02


class DueWork:
    """Claims due entities in the store. If there are none, it sets the timer to the next."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        documents: DocumentCache,
        polls: PollLog,
        timers: Timers,
    ) -> None:
        self._store = store
        self._clock = clock
        self._documents = documents
        self._polls = polls
        self._timers = timers

    async def commands(self, limit: int) -> list[Command]:
        """Return the commands for at most `limit` entities."""
        refs = await self._store.due_entities(self._clock.now(), limit)
        if not refs:
            self._arm(await self._store.next_due())
        recorded = await self._recorded_polls(refs)
        return [
            command for kind, name in refs for command in self._commands_for(kind, name, recorded)
        ]

    def _arm(self, moment: float | None) -> None:
        """Set the timer. A time in the past means that another process holds the entity."""
        if moment is not None and moment <= self._clock.now():
            asyncio.get_running_loop().call_later(_CONTENDED_SECONDS, self._timers.fire)
        else:
            self._timers.arm(moment)

    async def _recorded_polls(self, refs: Sequence[Ref]) -> dict[str, float]:
        """The recorded polls of due scopes, unless they are known to be due for another reason."""
        scopes = [
            group
            for kind, name in refs
            if kind is Scope and self._may_be_idle(name)
            for group in all_groups(name)
        ]
        return await self._store.recorded_polls(scopes) if scopes else {}

    def _may_be_idle(self, scope: str) -> bool:
        published = self._documents.get(scope)
        known = published.scope if published else None
        return known is None or (known.enabled and self._clock.now() >= idle_at(known))

    def _commands_for(
        self, kind: type[Entity], name: str, recorded: Mapping[str, float]
    ) -> list[Command]:
        if kind is Lane:
            return [RetryLane(lane=name)]
        groups = all_groups(name)
        last = max(max(recorded.get(group, 0.0), self._polls.last(group)) for group in groups)
        last = max(last, self._polls.jumped_at)
        if not last:
            return [AdvanceTime(scope=name)]
        # A poll that the scope does not have yet keeps Scheduled Events enabled (M14), and so does
        # a jump, over time in which nobody could have polled.
        return [Poll(scope=name, at=last, actor="machine"), AdvanceTime(scope=name)]
