"""A host that runs libvirt: a connection to it, and who is called what there.

libvirt's calls block, so each is made on a thread, never on the event loop.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from threading import Thread
from typing import Any, TypeVar

from fairwarning.core.errors import Refused
from fairwarning.machines.libvirt.record import MACHINE, is_machine

T = TypeVar("T")

# libvirt has no types.
Library = Any
Connection = Any
RawDomain = Any

_CALLS = 16  # at once, to one host
_OPEN_SECONDS = 60.0
_KEEPALIVE_SECONDS = 5
_KEEPALIVE_MISSES = 3  # then the connection counts as lost


class RetryLater(Exception):
    """Not now: the host is away, or the domain changed meanwhile. Begin from the start."""


class DomainNotFound(Exception):
    """There is no such domain, or no longer."""


class LibvirtRefused(Exception):
    """libvirt will not do it, whenever it is asked."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


@cache
def library() -> Library:
    """The installed libvirt, made ready for threads."""
    try:
        found = import_module("libvirt")
    except ImportError as error:
        text = (
            f"the libvirt driver needs Python's libvirt, which cannot be used ({error}); "
            "install fairwarning[libvirt], or your distribution's python3-libvirt"
        )
        raise Refused("LibvirtMissing", text) from error
    found.registerErrorHandler(lambda *_: None, None)  # it would print; every error is raised too
    found.virEventRegisterDefaultImpl()
    Thread(target=_run_events, args=(found,), name="libvirt events", daemon=True).start()
    return found


def _run_events(found: Library) -> None:
    """They carry the keepalive, without which a host that vanished is never noticed."""
    while True:
        with suppress(found.libvirtError):
            found.virEventRunDefaultImpl()


def number(name: str) -> int:
    """What libvirt means by a name."""
    value: int = getattr(library(), f"VIR_{name}")
    return value


class LibvirtHost:
    """Where the connection leads; it is opened when needed, and again when lost."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._error = library().libvirtError
        self._connection: Connection = None
        self._opening: asyncio.Future[None] | None = None
        self._turns = asyncio.Semaphore(_CALLS)

    async def connection(self) -> Connection:
        """One that works. Raises Again."""
        if self._connection is None or not _is_alive(self._connection):
            if self._opening is None or self._opening.done():  # all who need it wait for one
                self._opening = asyncio.ensure_future(self._open())
                self._opening.add_done_callback(_hear)
            await asyncio.shield(self._opening)
        return self._connection

    async def call(self, connection: Connection, function: Callable[[], T]) -> T:
        """Call libvirt. What is cancelled runs on, on its thread, to its end."""
        await self._turns.acquire()
        future = _in_thread(partial(self._translated, connection, function))
        future.add_done_callback(lambda _: self._turns.release())
        return await asyncio.shield(future)

    async def find(self, scope: str, machine: str) -> list[RawDomain]:
        """The domains that say they are this machine; if none does, the one of its name."""
        connection = await self.connection()
        return await self.call(connection, partial(self._find, connection, scope, machine))

    async def name(self) -> str:
        """What the host calls itself, whichever way it is reached."""
        connection = await self.connection()
        name: str = await self.call(connection, connection.getHostname)
        return name

    def metadata(self, raw: RawDomain, namespace: str) -> str | None:
        """On a thread: an element of the running domain's, or of the stored one if it is off."""
        try:
            text: str = raw.metadata(
                number("DOMAIN_METADATA_ELEMENT"), namespace, number("DOMAIN_AFFECT_CURRENT")
            )
        except self._error as error:
            if error.get_error_code() == number("ERR_NO_DOMAIN_METADATA"):
                return None
            raise
        return text

    async def close(self) -> None:
        """Hang up."""
        if self._opening is not None:
            self._opening.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            await asyncio.shield(_in_thread(partial(_hang_up, connection)))

    async def _open(self) -> None:
        dialled = _in_thread(self._dial)
        try:
            async with asyncio.timeout(_OPEN_SECONDS):
                self._connection = await asyncio.shield(dialled)
        except (self._error, TimeoutError) as error:
            dialled.add_done_callback(_hang_up_late)
            why = str(error) or f"no answer in {_OPEN_SECONDS:g} s"
            text = (
                f"libvirt at {self.uri} cannot be reached: {why}; see that it runs there, and "
                "that the user of this service may connect to it"
            )
            raise RetryLater(text) from error

    # --- On a thread ---

    def _dial(self) -> Connection:
        connection = library().open(self.uri)
        with suppress(self._error):  # a hypervisor that is no process of its own has none
            connection.setKeepAlive(_KEEPALIVE_SECONDS, _KEEPALIVE_MISSES)
        return connection

    def _translated(self, connection: Connection, function: Callable[[], T]) -> T:
        try:
            return function()
        except self._error as error:
            code = error.get_error_code()
            if not _is_alive(connection):
                raise RetryLater(
                    f"the connection to libvirt at {self.uri} was lost: {error}"
                ) from error
            # None: Python freed another object of libvirt's meanwhile, which wipes what went wrong.
            if code in {number("ERR_OPERATION_TIMEOUT"), None}:
                raise RetryLater(f"libvirt at {self.uri} is busy: {error}") from error
            if code == number("ERR_NO_DOMAIN"):
                raise DomainNotFound(str(error)) from error
            raise LibvirtRefused(str(error), code) from error

    def _find(self, connection: Connection, scope: str, machine: str) -> list[RawDomain]:
        named: list[RawDomain] = []
        said_so: list[RawDomain] = []
        for raw in connection.listAllDomains():
            try:
                said = self.metadata(raw, MACHINE)
            except self._error as error:
                if error.get_error_code() == number("ERR_NO_DOMAIN"):  # undefined just now
                    continue
                raise
            if said is not None and is_machine(said, scope, machine):
                said_so.append(raw)
            elif said is None and raw.name() == machine:
                named.append(raw)
        return said_so or named


def _is_alive(connection: Connection) -> bool:
    """Asks nobody: it is known here whether the connection was lost."""
    try:
        return bool(connection.isAlive())
    except library().libvirtError:
        return False


def _hang_up(connection: Connection) -> None:
    with suppress(library().libvirtError):
        connection.close()


def _hang_up_late(dialled: "asyncio.Future[Connection]") -> None:
    if not dialled.cancelled() and dialled.exception() is None:
        _hang_up(dialled.result())


def _hear(future: "asyncio.Future[Any]") -> None:
    """Its error is known to whoever still waits, and matters to nobody else."""
    if not future.cancelled():
        future.exception()


def _in_thread(function: Callable[[], T]) -> "asyncio.Future[T]":
    """Run it on a thread of its own, for which nobody waits when the process ends."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    future.add_done_callback(_hear)

    def run() -> None:
        tell: Callable[[], None]
        try:
            tell = partial(future.set_result, function())
        except BaseException as error:  # noqa: BLE001  (whatever it is, it is the caller's)
            tell = partial(future.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(tell)

    Thread(target=run, name="libvirt call", daemon=True).start()
    return future
