"""Passes connections from the network of a machine to that of the host.

It runs outside, in the supervisor. A socket that was created inside the machine stays in its
network, whichever process uses it.
"""

import asyncio
import socket
import struct
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import NamedTuple

_READ_BYTES = 64 * 1024
_BACKLOG = 128
_ACCEPT_RETRY_SECONDS = 0.5  # after running out of file descriptors
_LOOPBACK = "127.0.0.1"


class HostPort(NamedTuple):
    """A TCP port of a host, which is a name or an IPv4 address."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def address_inside(self) -> str:
        """Where a program inside the machine reaches this port: names mean loopback there."""
        return self.host if _is_address(self.host) else _LOOPBACK

    @property
    def alias(self) -> str:
        """The name that must resolve to `address_inside`, if any."""
        return "" if _is_address(self.host) or self.host == "localhost" else self.host


def listen(port: HostPort, address: str) -> socket.socket:
    """Listen on that port of an address. Raises OSError."""
    listener = socket.socket()
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((address, port.port))
        listener.listen(_BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


class PortRelay:
    """Relays the forwarded ports of one machine."""

    def __init__(self, forwarded: Sequence[HostPort]) -> None:
        self._forwarded = forwarded
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, listeners: Sequence[socket.socket]) -> None:
        """Accept connections on sockets inside the machine, one for each port."""
        for listener, target in zip(listeners, self._forwarded, strict=True):
            self._start(self._accept(listener, target))

    async def close(self) -> None:
        """Close all connections and listeners."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, coroutine: Coroutine[object, None, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(self, listener: socket.socket, target: HostPort) -> None:
        loop = asyncio.get_running_loop()
        listener.settimeout(0)
        with listener:
            while True:
                try:
                    accepted, _ = await loop.sock_accept(listener)
                except OSError:
                    await asyncio.sleep(_ACCEPT_RETRY_SECONDS)
                else:
                    self._start(_serve(accepted, target))


async def _serve(accepted: socket.socket, target: HostPort) -> None:
    with accepted, suppress(OSError, ExceptionGroup):
        try:
            other = await _connect(target)
        except (OSError, UnicodeError):  # a name may be none that can be looked up
            _reset(accepted)
            return
        with other:
            async with asyncio.TaskGroup() as group:
                group.create_task(_forward(accepted, other))
                group.create_task(_forward(other, accepted))


async def _forward(source: socket.socket, target: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, _READ_BYTES):
        await loop.sock_sendall(target, data)
    target.shutdown(socket.SHUT_WR)


async def _connect(target: HostPort) -> socket.socket:
    """Connect to the first address of the host that answers."""
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(addresses, 1):
        connection = socket.socket(family, kind, protocol)
        connection.settimeout(0)
        try:
            await loop.sock_connect(connection, address)
        except BaseException as error:
            connection.close()
            if number == len(addresses) or not isinstance(error, OSError):
                raise
        else:
            return connection
    raise OSError(f"{target.host} has no address")


def _reset(connection: socket.socket) -> None:
    """Have the other end see an error, not an empty answer."""
    linger = struct.pack("ii", 1, 0)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def _is_address(host: str) -> bool:
    try:
        socket.inet_pton(socket.AF_INET, host)
    except OSError:
        return False
    return True
