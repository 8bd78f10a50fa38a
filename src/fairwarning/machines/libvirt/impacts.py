"""The actions that execute each kind of impact on a domain.

Each action can be restarted after a crash at any point and continues where it was (E9).
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from fairwarning.core.model import ImpactKind
from fairwarning.core.record import record
from fairwarning.machines.driver import announced_seconds
from fairwarning.machines.libvirt.claim import DomainClaim
from fairwarning.machines.libvirt.host import (
    DomainNotFound,
    LibvirtHost,
    LibvirtRefused,
    RetryLater,
)
from fairwarning.machines.libvirt.migration import migrate
from fairwarning.machines.libvirt.record import DomainRecord, ImpactStage

_RESUME_SECONDS = 5.0
_ASK_AGAIN_SECONDS = 10.0  # a guest to shut down


@record
class LibvirtOptions:
    """Settings of the driver."""

    grace_seconds: float
    hosts: tuple[LibvirtHost, ...]  # one, or two between which domains may move

    def other_host(self, host: LibvirtHost) -> LibvirtHost | None:
        """Return the host that a domain of this host may move to."""
        return next((other for other in self.hosts if other is not host), None)


Action = Callable[[DomainClaim, LibvirtOptions], Awaitable[None]]


async def freeze(claim: DomainClaim, _: LibvirtOptions) -> None:
    """Suspend the domain for the duration, then resume it. A domain that is off stays off."""
    domain = claim.domain
    if (await claim.check()).stage is ImpactStage.CLAIMED and await domain.is_paused():
        return  # paused by its owner, who must resume it
    record = await claim.begin()
    if await domain.is_off():
        return
    suspending = asyncio.ensure_future(_suspend(claim, record.stage))
    try:
        await asyncio.shield(suspending)
        left = _left(announced_seconds(claim.impact), record.began_at)
        await claim.wait(left, domain.is_not_paused)
    except asyncio.CancelledError:
        await asyncio.shield(_resume_early(claim, suspending))
        raise
    await domain.resume()


async def _suspend(claim: DomainClaim, stage: ImpactStage) -> None:
    if stage is ImpactStage.BEGUN:
        await claim.domain.suspend()
        await claim.set_stage(ImpactStage.FROZEN)


async def _resume_early(claim: DomainClaim, suspending: Awaitable[None]) -> None:
    """Resume the domain when the service stops, as no other service may follow."""
    with suppress(RetryLater, LibvirtRefused, DomainNotFound, TimeoutError):
        async with asyncio.timeout(_RESUME_SECONDS):
            await suspending
            await claim.domain.resume()


async def reboot(claim: DomainClaim, options: LibvirtOptions) -> None:
    """Shut the domain down, then power it off and on. A plain reset would leave no trace."""
    await _power_off(claim, options.grace_seconds)
    await claim.domain.start(force_boot=True)


async def reimage(claim: DomainClaim, _: LibvirtOptions) -> None:
    """Power the domain off and on. The driver does not touch its disks."""
    await _power_off(claim)
    await claim.domain.start(force_boot=True)


async def redeploy(claim: DomainClaim, options: LibvirtOptions) -> None:
    """Migrate the domain to the other host if there is one; else power it off and on."""
    other = options.other_host(claim.domain.host)
    if other is None:
        return await reimage(claim, options)
    record = await claim.begin()
    if record.origin == await claim.domain.host.name():
        await migrate(claim.domain, other, claim.deadline)
        raise RetryLater(f"domain {claim.domain.name} is migrating to {other.uri}")
    return None


async def stop(claim: DomainClaim, options: LibvirtOptions) -> None:
    """Shut the domain down, then power it off."""
    await _power_off(claim, options.grace_seconds)


async def evict(claim: DomainClaim, _: LibvirtOptions) -> None:
    """Power the domain off. A transient domain then ceases to exist."""
    await _power_off(claim, allow_transient=True)


async def start(claim: DomainClaim, _: LibvirtOptions) -> None:
    """Power the domain on; a domain with a managed save resumes from it."""
    await claim.begin()
    await claim.domain.start(force_boot=False)


async def delete(claim: DomainClaim, _: LibvirtOptions) -> None:
    """Power the domain off and undefine it."""
    await claim.begin()
    persistent = await claim.domain.is_persistent()
    await claim.domain.power_off(lambda _: True)
    if persistent:
        await claim.domain.undefine()


async def _power_off(
    claim: DomainClaim, grace_seconds: float = 0, *, allow_transient: bool = False
) -> None:
    domain = claim.domain
    if not allow_transient and not await domain.is_persistent():
        text = f"domain {domain.name} is transient: powering it off would remove it"
        raise LibvirtRefused(f"{text}; make it persistent with `virsh define`")
    record = await claim.begin()
    if grace_seconds and record.not_restarted and await domain.is_not_paused():
        await _shut_down(claim, _left(grace_seconds, record.began_at))
    await domain.power_off(_not_restarted)


async def _shut_down(claim: DomainClaim, seconds: float) -> None:
    """Ask the guest to shut down, again and again: its agent may be late, or busy."""
    ends = time.monotonic() + seconds
    while (left := ends - time.monotonic()) > 0 and not await claim.domain.is_off():
        await claim.domain.request_shutdown(_not_restarted)
        await claim.wait(min(left, _ASK_AGAIN_SECONDS), claim.domain.is_off)


def _not_restarted(record: DomainRecord) -> bool:
    """Return whether the domain has been running since the impact began."""
    return record.not_restarted


def _left(seconds: float, since: float) -> float:
    """Return what is left of a duration, allowing for changes of the wall clock."""
    return min(max(seconds - (time.time() - since), 0), seconds)


ACTIONS: Mapping[ImpactKind, Action] = {
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
