"""The libvirt driver: a machine is a domain, and impacts are executed on the domain.

The domain's metadata records what was done, so any process on any host can tell (IL5).
"""

import asyncio
import logging
import os
import secrets
import socket
from contextlib import suppress
from weakref import WeakValueDictionary

from fairwarning.core.model import Impact, ImpactKind
from fairwarning.machines.driver import Report, announced_seconds
from fairwarning.machines.libvirt.claim import DomainClaim
from fairwarning.machines.libvirt.domain import LibvirtDomain
from fairwarning.machines.libvirt.host import (
    DomainNotFound,
    LibvirtHost,
    LibvirtRefused,
    RetryLater,
)
from fairwarning.machines.libvirt.impacts import ACTIONS, LibvirtOptions

log = logging.getLogger(__name__)

_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 5.0
_RELEASE_SECONDS = 5.0  # time limit for giving up a claim when the service stops
_LATE_SECONDS = 60.0  # after a redeploy's time limit, to abort its migration or record its success

_REMOVING = {ImpactKind.EVICT, ImpactKind.DELETE}  # the domain may vanish during these

Key = tuple[str, str]


class LibvirtDriver:
    """Executes impacts on domains: one at a time per machine, different machines concurrently.

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
        hosts = tuple(LibvirtHost(address) for address in (uri, destination) if address)
        self._options = LibvirtOptions(
            grace_seconds=min(grace_seconds, timeout_seconds / 2), hosts=hosts
        )
        self._timeout_seconds = timeout_seconds
        self._claim_seconds = claim_seconds
        self._name = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"
        self._locks: WeakValueDictionary[Key, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Task[None]] = set()

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Start the impact, unless it was already executed."""
        task = asyncio.create_task(self._carry_out(impact, report), name=f"libvirt {impact.id}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @property
    def problem(self) -> str:
        """Why impacts wait; empty while libvirt answers."""
        lost = any(host.is_lost for host in self._options.hosts)
        return "libvirt cannot be reached; impacts wait for it" if lost else ""

    async def guest_at(self, address: str) -> str:
        """Return the machine whose domain has a DHCP lease for this address; empty if none."""
        for host in self._options.hosts:
            try:
                if name := await host.name_at(address):
                    return name
            except (RetryLater, LibvirtRefused, DomainNotFound) as error:
                log.warning("cannot look for the guest at %s: %s", address, error)
        return ""

    async def close(self) -> None:
        """Stop. A later driver continues; a frozen domain is resumed first."""
        for task in (tasks := list(self._tasks)):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for host in self._options.hosts:
            await host.close()

    async def _carry_out(self, impact: Impact, report: Report) -> None:
        lock = self._locks.setdefault((impact.scope, impact.machine), asyncio.Lock())
        async with lock:
            error = await self._outcome(impact)
        report(impact, error)

    async def _outcome(self, impact: Impact) -> str:
        """Execute the impact; return an empty string on success, else the reason."""
        seconds = self._timeout_seconds + announced_seconds(impact)
        deadline = asyncio.get_running_loop().time() + seconds
        late = _LATE_SECONDS if impact.kind is ImpactKind.REDEPLOY else 0
        reason, pause = "the domain did not react", _FIRST_PAUSE_SECONDS
        try:
            async with asyncio.timeout_at(deadline + late):
                while True:
                    try:
                        await self._attempt(impact, deadline)
                    except (RetryLater, DomainNotFound) as error:
                        reason = str(error)
                    else:
                        return ""
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)
        except TimeoutError:
            return f"not done within {seconds:g} s: {reason}"
        except LibvirtRefused as error:
            return str(error)
        except Exception as error:  # any exception ends the impact
            log.exception("impact %s failed", impact.id)
            return f"the driver failed: {error}"

    async def _attempt(self, impact: Impact, deadline: float) -> None:
        domain = await self._find(impact)
        if domain is None:
            return
        claim = DomainClaim(domain, impact, self._name, self._claim_seconds, deadline)
        try:
            if await claim.acquire():
                await ACTIONS[impact.kind](claim, self._options)
                await claim.finish()
        except DomainNotFound:
            if impact.kind not in _REMOVING:
                raise
        except (LibvirtRefused, asyncio.CancelledError):
            with suppress(TimeoutError):
                await asyncio.shield(asyncio.wait_for(claim.release(), _RELEASE_SECONDS))
            raise

    async def _find(self, impact: Impact) -> LibvirtDomain | None:
        """Return the machine's domain; None if it was to be deleted and does not exist.

        A host that cannot be reached matters only if no other host has the domain.
        """
        domains: list[LibvirtDomain] = []
        unreachable: list[str] = []
        for host in self._options.hosts:
            try:
                raw_domains = await host.find(impact.scope, impact.machine)
            except RetryLater as error:
                unreachable.append(str(error))
                continue
            domains = [LibvirtDomain(host, raw) for raw in raw_domains]
            if domains:
                break
        if unreachable and not domains:
            raise RetryLater("; ".join(unreachable))
        if len(domains) > 1:
            names = ", ".join(sorted(domain.name for domain in domains))
            text = (
                f"the metadata of the domains {names} all name {impact.machine} of {impact.scope}"
            )
            raise LibvirtRefused(f"{text}; correct the metadata of all but one")
        if not domains and impact.kind is not ImpactKind.DELETE:
            where = " or ".join(host.uri for host in self._options.hosts)
            text = f"there is no domain for {impact.machine} at {where}; define one of that name"
            raise LibvirtRefused(f"{text}, or name the machine in its metadata")
        return domains[0] if domains else None
