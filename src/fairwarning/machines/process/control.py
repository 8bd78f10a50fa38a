"""The control connection, between the service and the programs that are its machines.

A JSON object a line, both ways; a listening socket may travel beside one. What is said:

    program: {"attach": machine}, with its endpoint's socket unless it is down
    service: {"attached": machine, "host_name": ..., "scope": ...}
             or {"refused": text for people, "status": as in `core.errors`}
    service: {"order": impact id, "do": kind of impact, "seconds": how long a freeze lasts}
    program: {"done": impact id, "error": ""}
    program: {"down": true}, its endpoint is to close; service: {"closed": true}
    program: {"up": true}, with the socket of its endpoint

Whoever hangs up is gone. A program tries to come back, and attaches again.
"""

import asyncio
import json
import os
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

Message = dict[str, object]

LINE_BYTES = 64 * 1024  # no message comes near it; whoever sends more is not one of ours
CONNECT_SECONDS = 1.0  # a service that lives accepts at once
_READ_BYTES = 16 * 1024
_SOCKETS = 4  # that may wait to be taken; one message carries one
_NAME = "control.sock"


class ProtocolError(Exception):
    """The other end does not speak this protocol."""


@contextmanager
def address(folder: Path) -> Iterator[str]:
    """Where the control socket of a data folder is, in a form that is short whatever the folder.

    The kernel takes no more than 107 bytes; a descriptor of the folder stands for its path.
    """
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{_NAME}"
    finally:
        os.close(descriptor)


def connect(folder: Path) -> socket.socket:
    """A connection to the service of a data folder. Raises OSError where none answers."""
    connection = socket.socket(socket.AF_UNIX)
    try:
        connection.settimeout(CONNECT_SECONDS)
        with address(folder) as path:
            connection.connect(path)
    except OSError:
        connection.close()
        raise
    return connection


def listen(folder: Path) -> socket.socket:
    """The service's socket, for its own user only. One that an earlier service left is replaced."""
    listening = socket.socket(socket.AF_UNIX)
    try:
        # The file is made with the mode of the socket: at no moment is it open to others.
        os.fchmod(listening.fileno(), 0o600)
        remove(folder)
        with address(folder) as path:
            listening.bind(path)
        listening.listen(128)
        listening.settimeout(0)
    except OSError:
        listening.close()
        raise
    return listening


def remove(folder: Path) -> None:
    """No service is here."""
    (folder / _NAME).unlink(missing_ok=True)


class ControlConnection:
    """One end of a control connection, inside an event loop."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(0)
        self._connection = connection
        self._read = b""
        self._sockets: deque[int] = deque()

    async def receive(self) -> Message | None:
        """The next message, or None when the other end has hung up. Raises Garbled."""
        while b"\n" not in self._read:
            if len(self._read) > LINE_BYTES:
                raise ProtocolError("a line is too long")
            if not await self._read_more():
                return None
        line, _, self._read = self._read.partition(b"\n")
        try:
            message = json.loads(line)
        except ValueError as error:
            raise ProtocolError("a line is not JSON") from error
        if not isinstance(message, dict):
            raise ProtocolError("a line is not an object")
        return message

    def take_socket(self) -> socket.socket | None:
        """The listening socket that came with the message just received, if one did."""
        if not self._sockets:
            return None
        came = socket.socket(fileno=self._sockets.popleft())
        came.settimeout(0)
        if came.family != socket.AF_INET or not _listens(came):
            came.close()
            raise ProtocolError("what came along is not a listening socket")
        return came

    def send(self, message: Message, beside: socket.socket | None = None) -> None:
        """Send it. If the other end is gone, or does not read, `receive` will say so."""
        line = json.dumps(message).encode() + b"\n"
        sockets = [beside.fileno()] if beside is not None else []
        try:
            sent = socket.send_fds(self._connection, [line], sockets)
        except OSError:
            sent = 0
        if sent != len(line):
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up. Only for whoever receives: nobody may be waiting for a message."""
        while self._sockets:
            os.close(self._sockets.popleft())
        self._connection.close()

    async def _read_more(self) -> bool:
        while True:
            try:
                data, sockets, _, _ = socket.recv_fds(
                    self._connection, _READ_BYTES, _SOCKETS, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                await self._readable()
                continue
            except OSError:
                return False
            break
        self._sockets.extend(sockets)
        if len(self._sockets) > _SOCKETS:
            raise ProtocolError("too many sockets came along")
        self._read += data
        return bool(data)

    async def _readable(self) -> None:
        loop = asyncio.get_running_loop()
        ready = asyncio.Event()
        loop.add_reader(self._connection.fileno(), ready.set)
        try:
            await ready.wait()
        finally:
            loop.remove_reader(self._connection.fileno())


def _listens(candidate: socket.socket) -> bool:
    return bool(candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
