"""Addresses of real guests that their host knows: a machine without one is given the guest's."""

import asyncio
import logging
from typing import Protocol, runtime_checkable

from fairwarning.core.commands import UpdateMachine
from fairwarning.core.errors import FairwarningError
from fairwarning.service.fleet import Fleet
from fairwarning.service.lookup import MachineLocation, find_machine

log = logging.getLogger(__name__)


@runtime_checkable
class GuestFinder(Protocol):
    """A driver that knows the addresses of its guests."""

    async def guest_at(self, address: str) -> str:
        """Return the machine that has this address, as `scope/name` or `name`; empty if none."""


class GuestAddresses:
    """Finds out which machine calls from an address that no machine has yet (M22)."""

    def __init__(self, fleet: Fleet, guests: GuestFinder) -> None:
        self._fleet = fleet
        self._guests = guests
        self._lock = asyncio.Lock()  # a stranger can ask often, but not at once

    async def find(self, address: str) -> MachineLocation | None:
        """Return the machine, which has the address from now on; None if the host knows none."""
        async with self._lock:
            name = await self._guests.guest_at(address)
            if not name:
                return None
            try:
                location = await find_machine(self._fleet, name)
                if location.machine.address:
                    return None  # it was given another by hand or from its subnet
                machine = location.machine.name
                await self._fleet.submit(
                    UpdateMachine(
                        scope=location.scope, machine=machine, address=address, actor="driver"
                    )
                )
            except FairwarningError as error:
                log.warning("the guest %s at %s is not known: %s", name, address, error)
                return None
            log.info("machine %s has address %s, as its host says", name, address)
            return await self._fleet.reader.locate_machine(address)
