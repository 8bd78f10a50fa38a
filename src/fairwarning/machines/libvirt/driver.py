"""The libvirt driver: a machine is a domain, and impacts happen to it.

What was done is kept in the domain's own metadata, so any process on any host can tell (IL5).
"""

import asyncio
import logging
import os
import secrets
import socket
from contextlib import suppress
from weakref import WeakValueDictionary

from fairwarning.core import limits
from fairwarning.core.model import Impact, ImpactKind
from fairwarning.machines.driver import Report
from fairwarning.machines.libvirt.acts import ACTS, LibvirtOptions
from fairwarning.machines.libvirt.claim import DomainClaim
from fairwarning.machines.libvirt.domain import LibvirtDomain
from fairwarning.machines.libvirt.host import (
    DomainNotFound,
    LibvirtHost,
    LibvirtRefused,
    RetryLater,
)

log = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_RELEASE_SECONDS = 5.0  # of what is let go when the service ends

_VANISH = {ImpactKind.EVICT, ImpactKind.DELETE}  # a domain that vanishes meanwhile is no failure

Key = tuple[str, str]


class LibvirtDriver:
    """Impacts on domains: of one machine one after the other, of different ones side by side.

    With `destination`, the URI of another host, a redeploy moves the domain between the two.
    """

    def __init__(
        self,
        uri: str = "qemu:///system",
        *,
        destination: str = "",
        grace_seconds: float = 60,
        timeout_seconds: float = 600,
        claim_seconds: float = 10,
    ) -> None:
        hosts = tuple(LibvirtHost(one) for one in (uri, destination) if one)
        self._ways = LibvirtOptions(
            grace_seconds=min(grace_seconds, timeout_seconds / 2), hosts=hosts
        )
        self._timeout_seconds = timeout_seconds
        self._claim_seconds = claim_seconds
        self._name = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"
        self._turns: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[None]] = set()

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Begin, unless it was carried out already."""
        task = asyncio.create_task(self._carry_out(impact, report), name=f"libvirt {impact.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Stop where we are. A later driver goes on there; a frozen domain is resumed first."""
        for task in (tasks := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for host in self._ways.hosts:
            await host.close()

    async def _carry_out(self, impact: Impact, report: Report) -> None:
        turn = self._turns.setdefault((impact.scope, impact.machine), asyncio.Lock())
        async with turn:
            error = await self._outcome(impact)
        report(impact, error)

    async def _outcome(self, impact: Impact) -> str:
        """Empty when it was carried out, else why not."""
        seconds = self._timeout_seconds
        if impact.kind is ImpactKind.FREEZE:
            seconds += max(impact.duration_seconds, limits.FREEZE_DURATION_SECONDS)
        attempts = RetrySchedule()
        try:
            async with asyncio.timeout(seconds):
                await self._until_done(impact, attempts)
        except TimeoutError:
            return f"not done within {seconds:g} s: {attempts.why or 'the domain did not obey'}"
        except LibvirtRefused as declined:
            return str(declined)
        except Exception as error:  # whatever it is, the impact is over
            log.exception("impact %s failed", impact.id)
            return f"the driver failed: {error}"
        return ""

    async def _until_done(self, impact: Impact, attempts: "RetrySchedule") -> None:
        while True:
            try:
                return await self._attempt(impact)
            except (RetryLater, DomainNotFound) as again:
                await attempts.pause(str(again))

    async def _attempt(self, impact: Impact) -> None:
        domain = await self._find(impact)
        if domain is None:
            return
        claim = DomainClaim(domain, impact, self._name, self._claim_seconds)
        try:
            if await claim.take():
                await ACTS[impact.kind](claim, self._ways)
                await claim.finish()
        except DomainNotFound:
            if impact.kind not in _VANISH:
                raise
        except (LibvirtRefused, asyncio.CancelledError):
            with suppress(TimeoutError):
                await asyncio.shield(asyncio.wait_for(claim.release(), _RELEASE_SECONDS))
            raise

    async def _find(self, impact: Impact) -> LibvirtDomain | None:
        """The machine's domain; None for one that was to be deleted, and is gone."""
        found: list[LibvirtDomain] = []
        for host in self._ways.hosts:
            found += [
                LibvirtDomain(host, raw) for raw in await host.find(impact.scope, impact.machine)
            ]
            if found:
                break
        if len(found) > 1:
            names = ", ".join(sorted(domain.name for domain in found))
            text = f"the domains {names} all say that they are {impact.machine} of {impact.scope}"
            raise LibvirtRefused(f"{text}; correct the metadata of all but one")
        if not found and impact.kind is not ImpactKind.DELETE:
            where = " or ".join(host.uri for host in self._ways.hosts)
            text = f"there is no domain for {impact.machine} at {where}; define one of that name"
            raise LibvirtRefused(f"{text}, or name the machine in its metadata")
        return found[0] if found else None


class RetrySchedule:
    """Pauses between attempts, and why the last one came to nothing."""

    def __init__(self) -> None:
        self.why = ""
        self._seconds = _FIRST_PAUSE_SECONDS

    async def pause(self, why: str) -> None:
        """Longer each time."""
        self.why = why
        await asyncio.sleep(self._seconds)
        self._seconds = min(self._seconds * 2, _LONGEST_PAUSE_SECONDS)
