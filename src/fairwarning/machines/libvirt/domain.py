"""A domain: what can be done to it, and the record that is kept in it.

What is so already is not done again and is no failure.
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
    number,
)
from fairwarning.machines.libvirt.record import DomainRecord

T = TypeVar("T")

Wanted = Callable[[DomainRecord], bool]
"""Whether to do it, as the record is at that moment. May raise Again."""

IsSo = Callable[[], Awaitable[bool]]


class LibvirtDomain:
    """A domain of a host, by one connection.

    Whatever is done looks at the record first, on the same thread: a process that was held up for
    long does not act on what it knew before (IL5).
    """

    def __init__(self, host: LibvirtHost, raw: RawDomain) -> None:
        self.host = host
        self.name: str = raw.name()
        self.is_ours: Wanted = lambda _: True
        self._raw = raw
        self._connection: Connection = raw.connect()

    # --- What is ---

    async def active(self) -> bool:
        return bool(await self._call(self._raw.isActive))

    async def off(self) -> bool:
        return not await self.active()

    async def paused(self) -> bool:
        state, _ = await self._call(self._raw.state)
        return bool(state == number("DOMAIN_PAUSED"))

    async def not_paused(self) -> bool:
        return not await self.paused()

    async def persistent(self) -> bool:
        """Whether it is still there when it is off."""
        return bool(await self._call(self._raw.isPersistent))

    async def read(self) -> DomainRecord:
        """What was done to it last."""
        return await self._call(self._read)

    # --- What is done ---

    async def update(
        self, change: Callable[[DomainRecord], DomainRecord | None], where: str = "CURRENT"
    ) -> DomainRecord:
        """Read the record and at once write what becomes of it, if anything; as it is then.

        LIVE is the running domain, CONFIG the stored one, CURRENT the one that `read` reads.
        """
        try:
            return await self._call(partial(self._update, change, where))
        except LibvirtRefused as declined:
            text = f"the metadata of the domain {self.name} cannot be written: {declined}"
            if declined.code == number("ERR_OPERATION_INVALID"):  # it went on or off just now
                raise RetryLater(text) from declined
            more = "a hypervisor that keeps none of ours needs the command driver"
            raise LibvirtRefused(f"{text}; {more}") from declined

    async def press_power_button(self, wanted: Wanted) -> None:
        """Ask the guest to shut down. It need not listen."""
        with suppress(
            RetryLater, LibvirtRefused
        ):  # a claim that was lost shows in what is done next
            await self._do("shut down", self._raw.shutdown, self.off, wanted)

    async def power_off(self, wanted: Wanted) -> None:
        await self._do("powered off", self._raw.destroy, self.off, wanted)

    async def start(self, *, afresh: bool) -> None:
        """Power it on; `afresh` does not go on from where a managed save left it."""
        flags = (number("DOMAIN_START_FORCE_BOOT"), 0) if afresh else (0,)
        await self._with_flags("started", self._raw.createWithFlags, flags, self.active)

    async def suspend(self) -> None:
        await self._do("suspended", self._raw.suspend, self.paused)

    async def resume(self) -> None:
        await self._do("resumed", self._raw.resume, self.not_paused)

    async def undefine(self) -> None:
        """Forget it, with all that libvirt keeps of it. Its disks stay."""
        some = number("DOMAIN_UNDEFINE_MANAGED_SAVE") | number("DOMAIN_UNDEFINE_SNAPSHOTS_METADATA")
        more = number("DOMAIN_UNDEFINE_NVRAM") | number("DOMAIN_UNDEFINE_CHECKPOINTS_METADATA")
        await self._with_flags("undefined", self._raw.undefineFlags, (some | more, some, 0))

    async def migrate(self, there: LibvirtHost) -> None:
        """Move it to another host while it runs; one that is off is only defined there."""
        flags = number("MIGRATE_LIVE" if await self.active() else "MIGRATE_OFFLINE")
        if await self.persistent():
            flags |= number("MIGRATE_PERSIST_DEST") | number("MIGRATE_UNDEFINE_SOURCE")
        connection = await there.connection()
        await self._do(f"moved to {there.uri}", lambda: self._raw.migrate3(connection, {}, flags))

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
            number("DOMAIN_METADATA_ELEMENT"),
            records.write(new),
            records.PREFIX,
            records.RECORD,
            number(f"DOMAIN_AFFECT_{where}"),
        )
        return new

    async def _call(self, function: Callable[[], T]) -> T:
        return await self.host.call(self._connection, function)

    async def _do(
        self,
        what: str,
        function: Callable[[], object],
        is_so: IsSo | None = None,
        wanted: Wanted = lambda _: True,
    ) -> None:
        def if_wanted() -> None:
            record = self._read()
            if self.is_ours(record) and wanted(record):
                function()

        try:
            await self._call(if_wanted)
        except LibvirtRefused as declined:
            if is_so is not None and await is_so():
                return
            text = f"the domain {self.name} could not be {what}: {declined}"
            if declined.code == number("ERR_OPERATION_INVALID"):  # the state it is in forbids it
                raise RetryLater(text) from declined
            where = f"see what the log of libvirt at {self.host.uri} says of it"
            raise LibvirtRefused(f"{text}; {where}", declined.code) from declined

    async def _with_flags(
        self,
        what: str,
        function: Callable[[int], object],
        choices: Sequence[int],
        is_so: IsSo | None = None,
    ) -> None:
        """With the first of these flags that the hypervisor's driver knows."""
        *known_to_some, known_to_all = choices
        for flags in known_to_some:
            try:
                return await self._do(what, partial(function, flags), is_so)
            except LibvirtRefused as declined:
                if declined.code not in _unknown():
                    raise
        return await self._do(what, partial(function, known_to_all), is_so)


def _unknown() -> list[int]:
    """How a hypervisor's driver says that it cannot do such a thing at all."""
    names = ("INVALID_ARG", "NO_SUPPORT", "ARGUMENT_UNSUPPORTED", "OPERATION_UNSUPPORTED")
    return [number(f"ERR_{name}") for name in names]
