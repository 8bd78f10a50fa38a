"""Passes connections between the network of a machine and that of the host.

It runs outside, in the supervisor. A socket that was created inside the machine stays in its
network, whichever process uses it.
"""

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from fairwarning.machines.process.channel import close_all

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
    """Relays the forwarded and published ports of one machine."""

    def __init__(
        self,
        forwarded: Sequence[HostPort],
        published: Sequence[HostPort],
        open_inside: Callable[[], None],
    ) -> None:
        """`open_inside` asks for a socket of the machine's network, for `opened_inside`."""
        self._forwarded = forwarded
        self._published = published
        self._open_inside = open_inside
        self._asked: deque[asyncio.Future[socket.socket]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, forwarded: list[socket.socket], published: list[socket.socket]) -> None:
        """Accept connections on the listening sockets of the ports."""
        for listener, target in zip(forwarded, self._forwarded, strict=True):
            self._start(self._accept(listener, partial(_connect_outside, target)))
        for listener, outside in zip(published, self._published, strict=True):
            self._start(self._accept(listener, partial(self._connect_inside, outside.port)))

    def opened_inside(self, descriptors: list[int]) -> None:
        """Use a socket of the machine's network; without any, close the connection."""
        asked = self._asked.popleft()
        if asked.cancelled():
            close_all(descriptors)
        elif not descriptors:
            asked.set_exception(OSError("no socket inside the machine"))
        else:
            asked.set_result(socket.socket(fileno=descriptors[0]))

    async def close(self) -> None:
        """Close all connections and listeners."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connect_inside(self, port: int) -> socket.socket:
        asked: asyncio.Future[socket.socket] = asyncio.get_running_loop().create_future()
        self._asked.append(asked)
        self._open_inside()
        connection = await asked
        await _connect(connection, (_LOOPBACK, port))
        return connection

    def _start(self, coroutine: Coroutine[object, None, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _accept(
        self, listener: socket.socket, connect: Callable[[], Awaitable[socket.socket]]
    ) -> None:
        loop = asyncio.get_running_loop()
        listener.settimeout(0)
        with listener:
            while True:
                try:
                    accepted, _ = await loop.sock_accept(listener)
                except OSError:
                    await asyncio.sleep(_ACCEPT_RETRY_SECONDS)
                else:
                    self._start(_serve(accepted, connect))


async def _serve(accepted: socket.socket, connect: Callable[[], Awaitable[socket.socket]]) -> None:
    with accepted, suppress(OSError, ExceptionGroup):
        try:
            other = await connect()
        except OSError:
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


async def _connect_outside(target: HostPort) -> socket.socket:
    """Connect to the first address of the host that answers."""
    loop = asyncio.get_running_loop()
    addresses = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(addresses, 1):
        connection = socket.socket(family, kind, protocol)
        try:
            await _connect(connection, address)
        except OSError:
            if number == len(addresses):
                raise
        else:
            return connection
    raise OSError(f"{target.host} has no address")


async def _connect(connection: socket.socket, address: tuple[object, ...]) -> None:
    connection.settimeout(0)
    try:
        await asyncio.get_running_loop().sock_connect(connection, address)
    except BaseException:
        connection.close()
        raise


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
