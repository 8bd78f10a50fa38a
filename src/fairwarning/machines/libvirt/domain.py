"""A domain: its state, operations on it, and the record in its metadata.

An operation whose effect is already there is skipped and is not an error.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from fairwarning.machines.libvirt import record as records
from fairwarning.machines.libvirt.host import (
    Connection,
    LibvirtHost,
    LibvirtRefused,
    RawDomain,
    RetryLater,
    constant,
)
from fairwarning.machines.libvirt.record import DomainRecord

T = TypeVar("T")

Condition = Callable[[DomainRecord], bool]
"""Whether to perform an operation, given the current record. May raise RetryLater."""

StateCheck = Callable[[], Awaitable[bool]]


class LibvirtDomain:
    """A domain of a host, on one connection.

    Every operation reads the record first, on the same thread, so that a process that was suspended
    for long does not act on outdated knowledge (IL5).
    """

    def __init__(self, host: LibvirtHost, raw: RawDomain) -> None:
        self.host = host
        self.name: str = raw.name()
        self.has_claim: Condition = lambda _: True
        self._raw = raw
        self._connection: Connection = raw.connect()

    # --- State ---

    async def is_active(self) -> bool:
        return bool(await self._call(self._raw.isActive))

    async def is_off(self) -> bool:
        return not await self.is_active()

    async def is_paused(self) -> bool:
        state, _ = await self._call(self._raw.state)
        return bool(state == constant("DOMAIN_PAUSED"))

    async def is_not_paused(self) -> bool:
        return not await self.is_paused()

    async def is_persistent(self) -> bool:
        """Return whether the domain continues to exist when it is off."""
        return bool(await self._call(self._raw.isPersistent))

    async def read(self) -> DomainRecord:
        """Return the record of the last impact."""
        return await self._call(self._read)

    # --- Operations ---

    async def update(
        self, change: Callable[[DomainRecord], DomainRecord | None], where: str = "CURRENT"
    ) -> DomainRecord:
        """Read the record and, on the same thread, write its changed value, if any; return it.

        LIVE is the running domain, CONFIG the stored one, CURRENT the one that `read` reads.
        """
        try:
            return await self._call(partial(self._update, change, where))
        except LibvirtRefused as error:
            text = f"cannot write the metadata of domain {self.name}: {error}"
            if error.code == constant("ERR_OPERATION_INVALID"):  # it was powered on or off just now
                raise RetryLater(text) from error
            advice = "a hypervisor without custom metadata needs the command driver"
            raise LibvirtRefused(f"{text}; {advice}") from error

    async def request_shutdown(self, condition: Condition) -> None:
        """Ask the guest to shut down. The guest may ignore it."""
        with suppress(RetryLater, LibvirtRefused):  # the next operation reports a lost claim
            await self._perform("shut down", self._raw.shutdown, self.is_off, condition)

    async def power_off(self, condition: Condition) -> None:
        await self._perform("powered off", self._raw.destroy, self.is_off, condition)

    async def start(self, *, force_boot: bool) -> None:
        """Power the domain on; `force_boot` ignores a managed save."""
        flags = (constant("DOMAIN_START_FORCE_BOOT"), 0) if force_boot else (0,)
        await self._with_flags("started", self._raw.createWithFlags, flags, self.is_active)

    async def suspend(self) -> None:
        await self._perform("suspended", self._raw.suspend, self.is_paused)

    async def resume(self) -> None:
        await self._perform("resumed", self._raw.resume, self.is_not_paused)

    async def undefine(self) -> None:
        """Remove the domain and everything that libvirt stores about it. Its disks stay."""
        basic = constant("DOMAIN_UNDEFINE_MANAGED_SAVE") | constant(
            "DOMAIN_UNDEFINE_SNAPSHOTS_METADATA"
        )
        more = constant("DOMAIN_UNDEFINE_NVRAM") | constant("DOMAIN_UNDEFINE_CHECKPOINTS_METADATA")
        await self._with_flags("undefined", self._raw.undefineFlags, (basic | more, basic, 0))

    async def migrate(self, destination: LibvirtHost, condition: Condition) -> None:
        """Live-migrate the domain to another host; if it is off, only define it there."""
        flags = constant("MIGRATE_LIVE" if await self.is_active() else "MIGRATE_OFFLINE")
        if await self.is_persistent():
            flags |= constant("MIGRATE_PERSIST_DEST") | constant("MIGRATE_UNDEFINE_SOURCE")
        connection = await destination.connection()
        await self._perform(
            f"migrated to {destination.uri}",
            lambda: self._raw.migrate3(connection, {}, flags),
            condition=condition,
        )

    async def abort_migration(self) -> None:
        """Abort a migration in progress; no other job of the domain."""
        await self._call(self._abort_migration)

    def _abort_migration(self) -> None:
        job = self._raw.jobStats().get("operation")
        if job == constant("DOMAIN_JOB_OPERATION_MIGRATION_OUT"):
            self._raw.abortJob()

    def _read(self) -> DomainRecord:
        text = self.host.metadata(self._raw, records.RECORD)
        return DomainRecord() if text is None else records.read(text)

    def _update(
        self, change: Callable[[DomainRecord], DomainRecord | None], where: str
    ) -> DomainRecord:
        record = self._read()
        new = change(record)
        if new is None:
            return record
        self._raw.setMetadata(
            constant("DOMAIN_METADATA_ELEMENT"),
            records.write(new),
            records.PREFIX,
            records.RECORD,
            constant(f"DOMAIN_AFFECT_{where}"),
        )
        return new

    async def _call(self, function: Callable[[], T]) -> T:
        return await self.host.call(self._connection, function)

    async def _perform(
        self,
        done: str,
        function: Callable[[], object],
        is_done: StateCheck | None = None,
        condition: Condition = lambda _: True,
    ) -> None:
        def call_if_allowed() -> None:
            record = self._read()
            if self.has_claim(record) and condition(record):
                function()

        try:
            await self._call(call_if_allowed)
        except LibvirtRefused as error:
            if is_done is not None and await is_done():
                return
            text = f"domain {self.name} could not be {done}: {error}"
            if error.code == constant("ERR_OPERATION_INVALID"):  # not possible in its current state
                raise RetryLater(text) from error
            advice = f"see the log of libvirt at {self.host.uri}"
            raise LibvirtRefused(f"{text}; {advice}", error.code) from error

    async def _with_flags(
        self,
        done: str,
        function: Callable[[int], object],
        choices: Sequence[int],
        is_done: StateCheck | None = None,
    ) -> None:
        """Perform an operation with the first flags that the hypervisor's driver supports."""
        *optional, fallback = choices
        for flags in optional:
            try:
                return await self._perform(done, partial(function, flags), is_done)
            except LibvirtRefused as error:
                if error.code not in _unsupported():
                    raise
        return await self._perform(done, partial(function, fallback), is_done)


def _unsupported() -> list[int]:
    """Return the error codes of an operation that the hypervisor's driver does not support."""
    names = ("INVALID_ARG", "NO_SUPPORT", "ARGUMENT_UNSUPPORTED", "OPERATION_UNSUPPORTED")
    return [constant(f"ERR_{name}") for name in names]
