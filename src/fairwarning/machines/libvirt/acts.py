"""What each impact is to a domain.

Each can be begun again after a crash at any moment, and goes on where it was (E9).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from fairwarning.core import limits
from fairwarning.core.model import Impact, ImpactKind
from fairwarning.core.record import record
from fairwarning.machines.libvirt.claim import DomainClaim
from fairwarning.machines.libvirt.host import (
    DomainNotFound,
    LibvirtHost,
    LibvirtRefused,
    RetryLater,
)
from fairwarning.machines.libvirt.record import DomainRecord, ImpactStage

_PARTING_SECONDS = 5.0


@record
class LibvirtOptions:
    """What an operator chose."""

    grace_seconds: float
    hosts: tuple[LibvirtHost, ...]  # one, or two between which domains may move

    def other_than(self, host: LibvirtHost) -> LibvirtHost | None:
        """Where a domain of this host may move to."""
        return next((one for one in self.hosts if one is not host), None)


Act = Callable[[DomainClaim, LibvirtOptions], Awaitable[None]]


async def freeze(claim: DomainClaim, _: LibvirtOptions) -> None:
    """Suspended for its duration, then resumed. What does not run cannot be frozen."""
    domain = claim.domain
    if (await claim.hold()).step is ImpactStage.CLAIMED and await domain.paused():
        return  # by its owner, whose pause is not ours to end
    began = await claim.begin()
    if await domain.off():
        return
    suspending = asyncio.ensure_future(_suspend(claim, began.step))
    try:
        await asyncio.shield(suspending)
        await claim.wait(_left(_duration(claim.impact), began.began_at), domain.not_paused)
    except asyncio.CancelledError:
        await asyncio.shield(_cut_short(claim, suspending))
        raise
    await domain.resume()


async def _suspend(claim: DomainClaim, step: ImpactStage) -> None:
    if step is ImpactStage.BEGUN:
        await claim.domain.suspend()
        await claim.note(ImpactStage.FROZEN)


async def _cut_short(claim: DomainClaim, suspending: Awaitable[None]) -> None:
    """The service ends, and perhaps no other comes: the domain must not stand for ever."""
    with suppress(RetryLater, LibvirtRefused, DomainNotFound, TimeoutError):
        async with asyncio.timeout(_PARTING_SECONDS):
            await suspending
            await claim.domain.resume()


async def reboot(claim: DomainClaim, ways: LibvirtOptions) -> None:
    """An orderly shutdown, then power off and on. Of a mere reset nobody could tell later."""
    await _end(claim, ways.grace_seconds)
    await claim.domain.start(afresh=True)


async def reimage(claim: DomainClaim, _: LibvirtOptions) -> None:
    """Power off and on. What is on its disks is not ours to know."""
    await _end(claim)
    await claim.domain.start(afresh=True)


async def redeploy(claim: DomainClaim, ways: LibvirtOptions) -> None:
    """To the other host, if there is one; else power off and on."""
    other = ways.other_than(claim.domain.host)
    if other is None:
        return await reimage(claim, ways)
    began = await claim.begin()
    if began.home == await claim.domain.host.name():
        await claim.domain.migrate(other)
        raise RetryLater(f"the domain {claim.domain.name} is on its way to {other.uri}")
    return None


async def stop(claim: DomainClaim, ways: LibvirtOptions) -> None:
    """An orderly shutdown, then power off."""
    await _end(claim, ways.grace_seconds)


async def evict(claim: DomainClaim, _: LibvirtOptions) -> None:
    """Power off. A transient domain is gone then."""
    await _end(claim, for_good=True)


async def start(claim: DomainClaim, _: LibvirtOptions) -> None:
    """Power on; a domain that was saved goes on where it was."""
    await claim.begin()
    await claim.domain.start(afresh=False)


async def delete(claim: DomainClaim, _: LibvirtOptions) -> None:
    """Power off, and forgotten by libvirt."""
    await claim.begin()
    persistent = await claim.domain.persistent()
    await claim.domain.power_off(lambda _: True)
    if persistent:
        await claim.domain.undefine()


async def _end(claim: DomainClaim, grace_seconds: float = 0, *, for_good: bool = False) -> None:
    domain = claim.domain
    if not for_good and not await domain.persistent():
        text = f"the domain {domain.name} is transient: powered off, it would be lost"
        raise LibvirtRefused(f"{text}; make it persistent with `virsh define`")
    began = await claim.begin()
    if grace_seconds and began.before and await domain.not_paused():
        await domain.press_power_button(_as_before)
        await claim.wait(_left(grace_seconds, began.began_at), domain.off)
    await domain.power_off(_as_before)


def _as_before(record: DomainRecord) -> bool:
    """Whether the domain has not been off since the impact began."""
    return record.before


def _duration(impact: Impact) -> float:
    if impact.duration_seconds == limits.UNKNOWN_DURATION:
        return limits.FREEZE_DURATION_SECONDS
    return impact.duration_seconds


def _left(seconds: float, since: float) -> float:
    """Of so many seconds; the wall clock may have been set meanwhile."""
    return min(max(seconds - (time.time() - since), 0), seconds)


ACTS: Mapping[ImpactKind, Act] = {
    ImpactKind.FREEZE: freeze,
    ImpactKind.REBOOT: reboot,
    ImpactKind.REDEPLOY: redeploy,
    ImpactKind.REIMAGE: reimage,
    ImpactKind.EVICT: evict,
    ImpactKind.DELETE: delete,
    ImpactKind.STOP: stop,
    ImpactKind.DEALLOCATE: stop,
    ImpactKind.START: start,
}
