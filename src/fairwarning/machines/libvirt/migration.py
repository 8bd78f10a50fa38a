"""Migrates a domain to another host, and aborts a migration that takes too long.

A migration that went on after the impact was reported as failed would contradict the report.
"""

import asyncio
from contextlib import suppress
from threading import Event

from fairwarning.machines.libvirt.domain import LibvirtDomain
from fairwarning.machines.libvirt.host import (
    DomainNotFound,
    LibvirtHost,
    LibvirtRefused,
    RetryLater,
)
from fairwarning.machines.libvirt.record import DomainRecord

_ABORT_SECONDS = 30.0
_ABORT_WHEN_STOPPING_SECONDS = 5.0
_PAUSE_SECONDS = 0.2  # between attempts; libvirt refuses while the migration is being prepared


async def migrate(domain: LibvirtDomain, destination: LibvirtHost, deadline: float) -> None:
    """Migrate the domain; abort the migration at the deadline, or when the service stops.

    A migration that completes in spite of that is a success. Raises TimeoutError if the deadline
    passed before the migration began.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout_at(deadline):
        await domain.host.migrations.acquire()
    if loop.time() >= deadline:
        domain.host.migrations.release()
        raise TimeoutError
    migration = _Migration(domain, destination)
    try:
        await asyncio.wait({migration.task}, timeout=max(deadline - loop.time(), 0))
        if not migration.task.done():
            await migration.abort(_ABORT_SECONDS)
    except asyncio.CancelledError:
        await asyncio.shield(migration.abort(_ABORT_WHEN_STOPPING_SECONDS))
        raise
    migration.check()


class _Migration:
    """A migration, from its first call on."""

    def __init__(self, domain: LibvirtDomain, destination: LibvirtHost) -> None:
        self._domain = domain
        self._destination = destination
        self._aborted = Event()
        self.task = asyncio.ensure_future(domain.migrate(destination, self._may_begin))
        self.task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Future[None]") -> None:
        self._domain.host.migrations.release()
        if not task.cancelled():
            task.exception()  # nothing may be waiting for it any more

    def _may_begin(self, _: DomainRecord) -> bool:
        if self._aborted.is_set():
            raise RetryLater("the time limit passed before the migration began")
        return True

    async def abort(self, seconds: float) -> None:
        """Abort the migration and wait for its end."""
        self._aborted.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while not self.task.done():
                    with suppress(RetryLater, LibvirtRefused, DomainNotFound):
                        await self._domain.abort_migration()
                    await asyncio.wait({self.task}, timeout=_PAUSE_SECONDS)

    def check(self) -> None:
        """Raise the reason why the domain was not migrated."""
        name, uri, origin = self._domain.name, self._destination.uri, self._domain.host.uri
        if not self.task.done():
            text = f"the migration of domain {name} to {uri} took too long and cannot be aborted"
            raise LibvirtRefused(f"{text}; see `virsh -c {origin} domjobinfo {name}`")
        error = self.task.exception()
        if self._aborted.is_set() and isinstance(error, LibvirtRefused):
            text = f"the migration of domain {name} to {uri} took too long and was aborted"
            raise LibvirtRefused(f"{text}; the domain is still at {origin}") from error
        self.task.result()
