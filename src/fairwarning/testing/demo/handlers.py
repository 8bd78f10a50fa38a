"""Simulated handlers: each polls as one machine, prepares for a moment, and approves."""

import asyncio
import logging
from math import inf

from fairwarning.core.errors import FairwarningError
from fairwarning.core.model import Power
from fairwarning.guest.aio import AsyncScheduledEvents
from fairwarning.guest.events import Document
from fairwarning.service.fleet import Fleet
from fairwarning.store.store import MachineLocation

log = logging.getLogger(__name__)

PREPARE_SECONDS = 5.0  # of the fleet's clock, from the first sight of an event to its approval
_POLL_SECONDS = 1.0  # while an event is prepared; otherwise a long poll waits for a change
_RETRY_SECONDS = 5.0


class SimulatedHandler:
    """Polls as one machine with the SDK, and approves the events of this machine alone.

    It prepares by the fleet's clock, so it approves nothing while a virtual clock stands still.
    """

    def __init__(
        self, fleet: Fleet, location: MachineLocation, endpoint: str, *, approves: bool
    ) -> None:
        self._fleet = fleet
        self._scope = location.scope
        self._machine = location.machine.name
        self._endpoint = endpoint
        self._approves = approves
        self._ready_at: dict[str, float] = {}  # by event; infinite once it was approved
        self.has_polled = asyncio.Event()

    async def run(self) -> None:
        """Handle events until cancelled."""
        while True:
            try:
                if await self.is_running():
                    await self._watch()
            except FairwarningError as error:
                log.debug("simulated handler of %s: %s; retrying", self._machine, error)
            await asyncio.sleep(_RETRY_SECONDS)

    async def is_running(self) -> bool:
        """Whether the machine exists and runs."""
        locations = await self._fleet.reader.find_machines(scope=self._scope)
        machines = (location.machine for location in locations)
        return any(
            machine.name == self._machine and machine.power is Power.RUNNING for machine in machines
        )

    async def _watch(self) -> None:
        async with AsyncScheduledEvents(self._endpoint, name=self._machine) as client:
            while True:
                preparing = any(ready_at < inf for ready_at in self._ready_at.values())
                document = await client.wait(_POLL_SECONDS if preparing else None)
                self.has_polled.set()
                if self._approves:
                    await self._approve_ready(client, document)

    async def _approve_ready(self, client: AsyncScheduledEvents, document: Document) -> None:
        now = self._fleet.clock.now()
        self._ready_at = {
            event.id: self._ready_at.get(event.id, now + PREPARE_SECONDS)
            for event in document.events
            if not event.started and event.concerns_only(self._machine)
        }
        for event, ready_at in self._ready_at.items():
            if ready_at <= now:
                await client.approve(event)
                self._ready_at[event] = inf
