"""A claim on a domain, so that of several drivers one acts, and each can tell what was done.

The order in which the record is written is what makes it true after a crash at any moment:

1. claimed: nothing has happened.
2. begun, in the running domain first, with `before`, and then in the stored one, without. Only
   now anything may happen.
3. done, in both, in the stored one first.

libvirt cannot compare and set. So a claim counts only if it still stands after a while, when
whoever saw the domain free has written too; and it is looked at again with each act. A claim whose
beat stands still for long is that of a driver that died.
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

# Parts of the time after which a claim without a sign of life lapses.
_SETTLE = 0.05
_LOOK = 0.05
_BEAT = 0.2


class DomainClaim:
    """One driver's hold of a domain, for one impact."""

    def __init__(self, domain: LibvirtDomain, impact: Impact, by: str, seconds: float) -> None:
        self.domain = domain
        self.domain.is_ours = self._is_held
        self.impact = impact
        self._by = by
        self._seconds = seconds
        self._seen = DomainRecord()
        self._seen_at = time.monotonic()
        self._beaten_at = 0.0

    async def take(self) -> bool:
        """Wait until the domain is ours. False: the impact was carried out already (IL5)."""
        while True:
            record = await self.domain.update(self._claimed)
            if self.impact.id in record.done:
                return False
            if record.by == self._by:
                await asyncio.sleep(self._seconds * _SETTLE)  # then `hold` says if it still stands
                return True
            await asyncio.sleep(self._seconds * _LOOK)

    def _claimed(self, record: DomainRecord) -> DomainRecord | None:
        """Ours, if it is nobody's, or has been silent for too long."""
        if self.impact.id in record.done:
            return None
        if record != self._seen:
            self._seen, self._seen_at = record, time.monotonic()
        lapsed = time.monotonic() - self._seen_at > self._seconds
        if record.by not in {"", self._by} and not lapsed:
            return None
        return record.claimed(self.impact.id, self._by)

    def _held(self, record: DomainRecord) -> DomainRecord:
        if (record.by, record.impact) != (self._by, self.impact.id):
            raise RetryLater(
                f"another service took over what is done to the domain {self.domain.name}"
            )
        return record

    def _is_held(self, record: DomainRecord) -> bool:
        return self._held(record) is record

    async def hold(self) -> DomainRecord:
        """How far the impact is; raises Again if another driver took the domain over."""
        return self._held(await self.domain.read())

    async def begin(self) -> DomainRecord:
        """From here on something may have happened to the domain."""
        record = await self.hold()
        if record.step is ImpactStage.CLAIMED:
            active, home = await self.domain.active(), await self.domain.host.name()
            began_at = time.time()
            record = changed(
                record, step=ImpactStage.BEGUN, began_at=began_at, home=home, before=active
            )
            if active:
                await self._write(record, "LIVE")
        if await self.domain.persistent():
            await self._write(changed(record, before=False), "CONFIG")
        return record

    async def note(self, step: ImpactStage) -> None:
        """It is so far."""
        await self.domain.update(lambda now: changed(self._held(now), step=step))

    async def wait(self, seconds: float, ended: Callable[[], Awaitable[bool]]) -> None:
        """Wait so long, or until it has ended, and show that we live."""
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0 and not await ended():
            await asyncio.sleep(min(left, self._seconds * _LOOK))
            if time.monotonic() - self._beaten_at > self._seconds * _BEAT:
                await self.domain.update(lambda now: changed(self._held(now), beat=now.beat + 1))
                self._beaten_at = time.monotonic()

    async def finish(self) -> None:
        """It was carried out: nobody does it again."""
        record = (await self.hold()).finished()
        if await self.domain.persistent():
            await self._write(record, "CONFIG")
        if await self.domain.active():
            await self._write(record, "LIVE")

    async def release(self) -> None:
        """Let another driver go on at once, as far as that can be said."""
        with suppress(RetryLater, LibvirtRefused, DomainNotFound):
            await self.domain.update(lambda now: changed(self._held(now), by=""))

    async def _write(self, record: DomainRecord, where: str) -> None:
        def unless_taken(now: DomainRecord) -> DomainRecord:
            self._held(now)
            return record

        await self.domain.update(unless_taken, where)
