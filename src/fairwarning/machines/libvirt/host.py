"""A host that runs libvirt: the connection to it, and finding its domains.

libvirt's calls block, so each runs on a thread, never on the event loop.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from threading import Thread
from typing import Any, TypeVar

from fairwarning.core.errors import Refused
from fairwarning.machines.libvirt.record import MACHINE, is_machine, machine_in

log = logging.getLogger(__name__)

T = TypeVar("T")

# The libvirt bindings have no types.
Library = Any
Connection = Any
RawDomain = Any

_CALLS = 16  # concurrent calls to one host
_MIGRATIONS = 4  # of those; libvirtd leaves a connection with 5 unfinished calls unread
_OPEN_SECONDS = 60.0  # for the first attempt to connect, then twice as long as for the last one
_LONGEST_OPEN_SECONDS = 900.0  # the host may have been replaced meanwhile
_WAIT_SECONDS = 5.0  # for a connection; then the caller tries another host, and this one later
_KEEPALIVE_SECONDS = 5
_KEEPALIVE_MISSES = 3  # then the connection counts as lost
_EVENTS_RETRY_SECONDS = 1.0  # after the event loop of libvirt has failed


class RetryLater(Exception):
    """A temporary failure: the host is unreachable, or the domain has changed. Start over."""


class DomainNotFound(Exception):
    """The domain does not exist, or no longer."""


class LibvirtRefused(Exception):
    """libvirt refused an operation permanently."""

    def __init__(self, text: str, code: int = 0) -> None:
        super().__init__(text)
        self.code = code


@cache
def library() -> Library:
    """Return the libvirt bindings, prepared for use with threads."""
    try:
        libvirt = import_module("libvirt")
    except ImportError as error:
        text = (
            f"the libvirt driver cannot use Python's libvirt bindings ({error}); "
            "install fairwarning[libvirt], or your distribution's python3-libvirt"
        )
        raise Refused("LibvirtMissing", text) from error
    libvirt.registerErrorHandler(lambda *_: None, None)  # do not print errors; they are raised
    libvirt.virEventRegisterDefaultImpl()
    Thread(target=_run_events, args=(libvirt,), name="libvirt events", daemon=True).start()
    return libvirt


def _run_events(libvirt: Library) -> None:
    """Run the event loop of libvirt, which sends keepalives to detect a host that has vanished."""
    while True:
        try:
            libvirt.virEventRunDefaultImpl()
        except Exception:  # without this loop, a call to a host that has vanished never ends
            log.exception("libvirt's event loop failed; trying again")
            time.sleep(_EVENTS_RETRY_SECONDS)


def constant(name: str) -> int:
    """Return a constant of libvirt by name."""
    value: int = getattr(library(), f"VIR_{name}")
    return value


class LibvirtHost:
    """A host and the connection to it, opened on first use and again when lost."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._error = library().libvirtError
        self._connection: Connection = None
        self._opening: asyncio.Future[None] | None = None
        self._open_seconds = _OPEN_SECONDS
        self.is_lost = False  # whether the last attempt to connect failed
        self._slots = asyncio.Semaphore(_CALLS)
        self.migrations = asyncio.Semaphore(_MIGRATIONS)

    async def connection(self) -> Connection:
        """Return a working connection. Raises RetryLater."""
        if self._connection is None or not _is_alive(self._connection):
            if self._opening is None or self._opening.done():  # all callers wait for one attempt
                self._opening = asyncio.ensure_future(self._open())
                self._opening.add_done_callback(_consume_exception)
            try:
                async with asyncio.timeout(_WAIT_SECONDS):
                    await asyncio.shield(self._opening)
            except TimeoutError as error:
                raise self._unreachable(f"no answer in {_WAIT_SECONDS:g} s") from error
        self.is_lost = False
        return self._connection

    async def call(self, connection: Connection, function: Callable[[], T]) -> T:
        """Call libvirt. A cancelled call continues on its thread to its end."""
        await self._slots.acquire()
        try:
            future = _in_thread(partial(self._call_translated, connection, function))
        except BaseException:  # no thread can start
            self._slots.release()
            raise
        future.add_done_callback(lambda _: self._slots.release())
        return await asyncio.shield(future)

    async def find(self, scope: str, machine: str) -> list[RawDomain]:
        """Return the domains whose metadata names this machine; if none, the one of its name."""
        connection = await self.connection()
        return await self.call(connection, partial(self._find, connection, scope, machine))

    async def name_at(self, address: str) -> str:
        """Return the machine that has a DHCP lease for this address, as `scope/name` or `name`."""
        connection = await self.connection()
        return await self.call(connection, partial(self._name_at, connection, address))

    async def name(self) -> str:
        """Return the host's own name, whichever URI it is reached by."""
        connection = await self.connection()
        name: str = await self.call(connection, connection.getHostname)
        return name

    def metadata(self, raw: RawDomain, namespace: str) -> str | None:
        """Return an element of the running domain, or of the stored one if it is off; blocks."""
        try:
            text: str = raw.metadata(
                constant("DOMAIN_METADATA_ELEMENT"), namespace, constant("DOMAIN_AFFECT_CURRENT")
            )
        except self._error as error:
            if error.get_error_code() == constant("ERR_NO_DOMAIN_METADATA"):
                return None
            raise
        return text

    async def close(self) -> None:
        """Close the connection."""
        if self._opening is not None:
            self._opening.cancel()
        connection, self._connection = self._connection, None
        if connection is not None:
            await asyncio.shield(_in_thread(partial(_disconnect, connection)))

    async def _open(self) -> None:
        """Connect. Nothing can end an attempt at a host that hangs, and each has a thread.

        So each may take twice as long as the last one: a hundred threads for a day of silence.
        """
        connecting, seconds = _in_thread(self._connect), self._open_seconds
        self._open_seconds = _OPEN_SECONDS
        try:
            async with asyncio.timeout(seconds):
                self._connection = await asyncio.shield(connecting)
        except TimeoutError as error:
            connecting.add_done_callback(_disconnect_late)
            self._open_seconds = min(2 * seconds, _LONGEST_OPEN_SECONDS)
            raise self._unreachable(f"no answer in {seconds:g} s") from error
        except self._error as error:
            raise self._unreachable(str(error)) from error

    def _unreachable(self, why: str) -> RetryLater:
        self.is_lost = True
        return RetryLater(
            f"libvirt at {self.uri} cannot be reached: {why}; check that it is running and "
            "that the user of this service may connect to it"
        )

    # --- Blocking methods, called on a thread ---

    def _connect(self) -> Connection:
        connection = library().open(self.uri)
        with suppress(self._error):  # not supported by hypervisors inside this process
            connection.setKeepAlive(_KEEPALIVE_SECONDS, _KEEPALIVE_MISSES)
        return connection

    def _call_translated(self, connection: Connection, function: Callable[[], T]) -> T:
        try:
            return function()
        except self._error as error:
            code = error.get_error_code()
            if not _is_alive(connection):
                raise RetryLater(
                    f"the connection to libvirt at {self.uri} was lost: {error}"
                ) from error
            # None: Python freed another libvirt object meanwhile, which resets the last error.
            if code in {constant("ERR_OPERATION_TIMEOUT"), None}:
                raise RetryLater(f"libvirt at {self.uri} is busy: {error}") from error
            if code == constant("ERR_NO_DOMAIN"):
                raise DomainNotFound(str(error)) from error
            raise LibvirtRefused(str(error), code) from error

    def _find(self, connection: Connection, scope: str, machine: str) -> list[RawDomain]:
        by_name: list[RawDomain] = []
        by_metadata: list[RawDomain] = []
        for raw in connection.listAllDomains():
            try:
                element = self.metadata(raw, MACHINE)
            except self._error as error:
                if error.get_error_code() == constant("ERR_NO_DOMAIN"):  # undefined just now
                    continue
                raise
            if element is not None and is_machine(element, scope, machine):
                by_metadata.append(raw)
            elif element is None and raw.name() == machine:
                by_name.append(raw)
        return by_metadata or by_name

    def _name_at(self, connection: Connection, address: str) -> str:
        """Ask for leases only: the guest itself controls what its agent says, and its ARP."""
        leases = constant("DOMAIN_INTERFACE_ADDRESSES_SRC_LEASE")
        for raw in connection.listAllDomains(constant("CONNECT_LIST_DOMAINS_ACTIVE")):
            with suppress(self._error):  # it ended just now, or has an interface without leases
                for interface in raw.interfaceAddresses(leases).values():
                    if any(lease["addr"] == address for lease in interface["addrs"] or ()):
                        element = self.metadata(raw, MACHINE)
                        return machine_in(element) if element else str(raw.name())
        return ""


def _is_alive(connection: Connection) -> bool:
    """Return whether the connection is alive, without contacting the host."""
    try:
        return bool(connection.isAlive())
    except library().libvirtError:
        return False


def _disconnect(connection: Connection) -> None:
    with suppress(library().libvirtError):
        connection.close()


def _disconnect_late(connecting: "asyncio.Future[Connection]") -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        _in_thread(partial(_disconnect, connecting.result()))


def _consume_exception(future: "asyncio.Future[Any]") -> None:
    """Mark the exception as retrieved: callers that still wait get it, and no others need it."""
    if not future.cancelled():
        future.exception()


def _in_thread(function: Callable[[], T]) -> "asyncio.Future[T]":
    """Run a function on a daemon thread, so that the process can exit while it is blocked."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    future.add_done_callback(_consume_exception)

    def run() -> None:
        resolve: Callable[[], None]
        try:
            resolve = partial(future.set_result, function())
        except BaseException as error:  # noqa: BLE001  (every exception is the caller's to handle)
            resolve = partial(future.set_exception, error)
        with suppress(RuntimeError):  # the loop is closed: nothing awaits the future
            loop.call_soon_threadsafe(resolve)

    Thread(target=run, name="libvirt call", daemon=True).start()
    return future
