"""A claim on a domain, so that only one of several drivers acts on it and its record is reliable.

The order of the writes keeps the record correct after a crash at any point:

1. claimed: nothing has happened.
2. begun: written first to the running domain, with `not_restarted`, and then to the stored one,
   without. Only then may anything happen.
3. done: written to both, to the stored one first.

libvirt has no compare-and-set. So a claim is valid only if it is unchanged after a settling time,
within which any driver that also saw the domain free has written its own; and every action verifies
it again. A claim whose heartbeat has not changed for long belongs to a driver that has ended.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress

from fairwarning.core.model import Impact
from fairwarning.core.record import changed
from fairwarning.machines.libvirt.domain import LibvirtDomain
from fairwarning.machines.libvirt.host import DomainNotFound, LibvirtRefused, RetryLater
from fairwarning.machines.libvirt.record import DomainRecord, ImpactStage

# Fractions of the time after which a claim without a heartbeat expires.
_SETTLE = 0.05
_POLL = 0.05
_HEARTBEAT = 0.2


class DomainClaim:
    """One driver's claim on a domain, for one impact."""

    def __init__(
        self, domain: LibvirtDomain, impact: Impact, owner: str, seconds: float, deadline: float
    ) -> None:
        """The claim expires without a heartbeat for `seconds`; the impact fails at `deadline`."""
        self.domain = domain
        self.domain.has_claim = self._has_claim
        self.impact = impact
        self.deadline = deadline  # a time of the event loop
        self._owner = owner
        self._seconds = seconds
        self._seen = DomainRecord()
        self._seen_at = time.monotonic()
        self._heartbeat_at = 0.0

    async def acquire(self) -> bool:
        """Wait for the claim. Return False if the impact was already executed (IL5)."""
        while True:
            record = await self.domain.update(self._claim)
            if self.impact.id in record.done:
                return False
            if record.owner == self._owner:
                await asyncio.sleep(self._seconds * _SETTLE)  # then `check` verifies the claim
                return True
            await asyncio.sleep(self._seconds * _POLL)

    def _claim(self, record: DomainRecord) -> DomainRecord | None:
        """Return the claimed record if the domain is free or its claim has expired."""
        if self.impact.id in record.done:
            return None
        if record != self._seen:
            self._seen, self._seen_at = record, time.monotonic()
        expired = time.monotonic() - self._seen_at > self._seconds
        if record.owner not in {"", self._owner} and not expired:
            return None
        return record.claimed(self.impact.id, self._owner)

    def _verified(self, record: DomainRecord) -> DomainRecord:
        if (record.owner, record.impact) != (self._owner, self.impact.id):
            raise RetryLater(f"another service has taken over domain {self.domain.name}")
        return record

    def _has_claim(self, record: DomainRecord) -> bool:
        return self._verified(record) is record

    async def check(self) -> DomainRecord:
        """Return the record; raises RetryLater if another driver has taken over the domain."""
        return self._verified(await self.domain.read())

    async def begin(self) -> DomainRecord:
        """Record that from now on something may have happened to the domain."""
        record = await self.check()
        if record.stage is ImpactStage.CLAIMED:
            active, origin = await self.domain.is_active(), await self.domain.host.name()
            began_at = time.time()
            record = changed(
                record,
                stage=ImpactStage.BEGUN,
                began_at=began_at,
                origin=origin,
                not_restarted=active,
            )
            if active:
                await self._write(record, "LIVE")
        if await self.domain.is_persistent():
            await self._write(changed(record, not_restarted=False), "CONFIG")
        return record

    async def set_stage(self, stage: ImpactStage) -> None:
        """Record the stage of the impact."""
        await self.domain.update(lambda record: changed(self._verified(record), stage=stage))

    async def wait(self, seconds: float, ended: Callable[[], Awaitable[bool]]) -> None:
        """Wait for a time or a condition, and renew the heartbeat meanwhile."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0 and not await ended():
            await asyncio.sleep(min(left, self._seconds * _POLL))
            if time.monotonic() - self._heartbeat_at > self._seconds * _HEARTBEAT:
                await self.domain.update(
                    lambda record: changed(self._verified(record), heartbeat=record.heartbeat + 1)
                )
                self._heartbeat_at = time.monotonic()

    async def finish(self) -> None:
        """Record that the impact was executed, so that no driver repeats it."""
        record = (await self.check()).finished()
        if await self.domain.is_persistent():
            await self._write(record, "CONFIG")
        if await self.domain.is_active():
            await self._write(record, "LIVE")

    async def release(self) -> None:
        """Give the claim up if libvirt is reachable, so that another driver need not wait."""
        with suppress(RetryLater, LibvirtRefused, DomainNotFound):
            await self.domain.update(lambda record: changed(self._verified(record), owner=""))

    async def _write(self, record: DomainRecord, where: str) -> None:
        def unless_taken(current: DomainRecord) -> DomainRecord:
            self._verified(current)
            return record

        await self.domain.update(unless_taken, where)
