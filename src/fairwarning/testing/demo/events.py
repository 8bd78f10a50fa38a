"""The events of the demo: a rollout at first, then a small event every few minutes."""

import asyncio
import logging
import uuid
from itertools import cycle

from fairwarning.core.commands import Command, Maintain, StartRollout
from fairwarning.core.errors import FairwarningError
from fairwarning.core.model import ImpactKind, Scope
from fairwarning.service.fleet import Fleet

log = logging.getLogger(__name__)

ROLLOUT = "kernel-update"
_ACTOR = "demo"
_APPROVED_SCOPE = "api/0"  # the handlers of its machines approve
_PENDING = "mail"  # a machine whose handler does not approve; its scope has the same name
_PERIOD_SECONDS = 240.0  # of the fleet's clock, between two events
_LEAST_SECONDS = 10.0  # of real time: a virtual clock may run very fast


class DemoEvents:
    """Announces events through the fleet, like an operator. What cannot be announced is left out.

    It announces nothing in a scope that has an event or that no machine polls, so an impact always
    has notice and a restart of the service repeats nothing.
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._kinds = cycle((ImpactKind.FREEZE, ImpactKind.REBOOT))
        self._turn = 0

    async def begin(self) -> None:
        """Announce the first events: one stays pending, and one is approved after a moment."""
        await self._announce_pending()
        if await self._quiet_scope(_APPROVED_SCOPE):
            rollout = StartRollout(
                rollout=ROLLOUT, scopes=(_APPROVED_SCOPE,), kind=ImpactKind.REBOOT, actor=_ACTOR
            )
            if not await self._submit(rollout):  # an earlier process has started it
                await self._announce_approved()

    async def run(self) -> None:
        """Announce another event now and then until cancelled."""
        while True:
            await self._pause()
            await self._announce_pending()
            await self._announce_approved()

    async def _pause(self) -> None:
        due = asyncio.Event()
        alarm = self._fleet.clock.call_at(self._fleet.clock.now() + _PERIOD_SECONDS, due.set)
        try:
            await asyncio.gather(due.wait(), asyncio.sleep(_LEAST_SECONDS))
        finally:
            alarm.cancel()

    async def _announce_pending(self) -> None:
        scope = await self._quiet_scope(_PENDING)
        if scope:
            await self._maintain(scope, _PENDING, ImpactKind.REDEPLOY)

    async def _announce_approved(self) -> None:
        scope = await self._quiet_scope(_APPROVED_SCOPE)
        if scope:
            machines = tuple(scope.machines)
            await self._maintain(scope, machines[self._turn % len(machines)], next(self._kinds))
            self._turn += 1

    async def _quiet_scope(self, name: str) -> Scope | None:
        """Return the scope if an event can be announced in it and has to wait for nothing."""
        try:
            scope = await self._fleet.reader.read(Scope, name)
        except FairwarningError as error:
            log.debug("demo: %s", error)
            return None
        quiet = scope and scope.enabled and not scope.events and not scope.impacts
        return scope if quiet else None

    async def _maintain(self, scope: Scope, machine: str, kind: ImpactKind) -> None:
        operation = uuid.uuid4().hex
        command = Maintain(
            scope=scope.id, machines=(machine,), operation=operation, kind=kind, actor=_ACTOR
        )
        await self._submit(command)

    async def _submit(self, command: Command) -> bool:
        try:
            await self._fleet.submit(command)
        except FairwarningError as error:
            log.debug("demo: %s", error)
            return False
        return True
