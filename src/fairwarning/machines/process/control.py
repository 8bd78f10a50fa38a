"""The control connection between the service and the programs that act as its machines.

Each message is a JSON object on one line; descriptors may be attached to it. The messages:

    program: {"attach": machine, "again": whether a service accepted it before}
    service: {"attached": machine, "host_name": ..., "scope": ..., "power": its power state},
             with the user and network namespace to join, if the machine has programs already
             or {"refused": error text, "status": as in `core.errors`}
    program: {"inside": true}, with its user and network namespace
    service: {"order": impact id, "do": kind of impact, "seconds": duration of a freeze}
    program: {"stopped": impact id}, when it has ended and the machine is to boot
    service: {"boot": impact id}, when the time that takes has passed
    program: {"done": impact id, "error": ""}
    program: {"ended": true}, if it has ended by itself and disconnects
    program: {"down": true}, to close its endpoint; service: {"closed": true}
    program: {"up": true}, with the socket of its endpoint, to open it

Either end may disconnect. A program then reconnects and attaches again.
"""

import asyncio
import errno
import json
import os
import signal
import socket
import struct
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fairwarning.core.errors import Refused
from fairwarning.machines.process.channel import receive_descriptors

Message = dict[str, object]

LINE_BYTES = 64 * 1024  # far above any valid message
CONNECT_SECONDS = 1.0  # a running service accepts at once
_READ_BYTES = 16 * 1024
_DESCRIPTORS = 4  # received and not yet taken; one message carries two at most
_NAME = "control.sock"
_PATH_BYTES = 103  # of the path of a socket, on macOS
_OWNER_ONLY = 0o600
_FAMILIES = {socket.AF_INET, socket.AF_INET6}  # of an endpoint
_NOT_LISTENING = "the attached descriptor is not a listening socket"
_SO_PEERPIDFD = 77  # Linux 6.5; not in Python's socket module
_CREDENTIALS = struct.Struct("3i")  # pid, user, group


class ProtocolError(Exception):
    """The other end does not follow this protocol."""


class PathTooLongError(OSError):
    """The system cannot have a socket in a folder with such a long path."""


@contextmanager
def address(folder: Path) -> Iterator[str]:
    """Provide the path of a data folder's control socket, short however long the folder's path is.

    The kernel limits it to 107 bytes; on Linux, the path goes through a descriptor of the folder.
    Other systems have no such path and raise PathTooLongError.
    """
    if not hasattr(os, "O_PATH"):
        yield _plain_address(folder)
        return
    descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{descriptor}/{_NAME}"
    finally:
        os.close(descriptor)


def _plain_address(folder: Path) -> str:
    path = str(folder / _NAME)
    if len(os.fsencode(path)) > _PATH_BYTES:
        longest = _PATH_BYTES - len(_NAME) - 1
        text = f"the path of {folder} is too long for a socket; use a folder with a path of at most"
        raise PathTooLongError(f"{text} {longest} bytes")
    return path


def connect(folder: Path) -> socket.socket:
    """Connect to the service of a data folder. Raises OSError if none answers."""
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
    """Create the service's socket, for its own user only, replacing that of an earlier service."""
    listening = socket.socket(socket.AF_UNIX)
    try:
        # On Linux, bind() creates the file with the socket's mode, so it is never accessible to
        # others. Elsewhere the file's mode is set afterwards; only its owner can write meanwhile.
        with suppress(OSError):
            os.fchmod(listening.fileno(), _OWNER_ONLY)
        remove(folder)
        with address(folder) as path:
            listening.bind(path)
        (folder / _NAME).chmod(_OWNER_ONLY)
        listening.listen(128)
        listening.settimeout(0)
    except OSError:
        listening.close()
        raise
    return listening


def remove(folder: Path) -> None:
    """Remove the control socket: the service has ended."""
    (folder / _NAME).unlink(missing_ok=True)


class ControlConnection:
    """One end of a control connection, in an event loop."""

    def __init__(self, connection: socket.socket) -> None:
        connection.settimeout(0)
        self._connection = connection
        self._read = b""
        self._descriptors: deque[int] = deque()

    async def receive(self) -> Message | None:
        """Return the next message, or None after a disconnect. Raises ProtocolError."""
        while b"\n" not in self._read:
            if len(self._read) > LINE_BYTES:
                raise ProtocolError("line is too long")
            if not await self._read_more():
                return None
        line, _, self._read = self._read.partition(b"\n")
        try:
            message = json.loads(line)
        except ValueError as error:
            raise ProtocolError("line is not JSON") from error
        if not isinstance(message, dict):
            raise ProtocolError("line is not a JSON object")
        return message

    def take_socket(self) -> socket.socket | None:
        """Return the listening socket that came with the last message, if any.

        Raises ProtocolError for any other descriptor, which is closed.
        """
        if not self._descriptors:
            return None
        descriptor = self._descriptors.popleft()
        try:
            received = socket.socket(fileno=descriptor)
        except OSError as error:
            os.close(descriptor)
            raise ProtocolError(_NOT_LISTENING) from error
        received.settimeout(0)
        if received.family not in _FAMILIES or not _listens(received):
            received.close()
            raise ProtocolError(_NOT_LISTENING)
        return received

    def take_descriptors(self, count: int) -> list[int]:
        """Return descriptors that came with the last message: this many, or none."""
        if len(self._descriptors) < count:
            return []
        return [self._descriptors.popleft() for _ in range(count)]

    def send(self, message: Message, *descriptors: int) -> None:
        """Send a message. If the other end is gone or does not read, `receive` returns None."""
        line = json.dumps(message).encode() + b"\n"
        try:
            sent = socket.send_fds(self._connection, [line], descriptors)
        except OSError:
            sent = 0
        if sent != len(line):
            with suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Disconnect. Only for the receiving task: no other task may be in `receive`."""
        while self._descriptors:
            os.close(self._descriptors.popleft())
        self._connection.close()

    async def _read_more(self) -> bool:
        while True:
            try:
                data, descriptors = receive_descriptors(self._connection, _READ_BYTES, _DESCRIPTORS)
            except BlockingIOError:
                await self._readable()
                continue
            except OSError:
                return False
            break
        self._descriptors.extend(descriptors)
        if len(self._descriptors) > _DESCRIPTORS:
            raise ProtocolError("too many descriptors are attached")
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
    try:
        return bool(candidate.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    except OSError:  # some systems cannot tell; accepting then fails
        return candidate.type == socket.SOCK_STREAM


def check_peer(connection: socket.socket) -> None:
    """Raise Refused unless the other end is this user's or root's, and outside every machine.

    A program inside a machine has the user and the files of the service, so it can reach the
    control socket. Its network namespace, which only root can leave, tells it apart.
    Without namespaces, as on macOS, the permissions of the control socket decide alone.
    """
    if not sys.platform.startswith("linux"):
        return
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, user, _ = _CREDENTIALS.unpack(credentials)
    if user not in {0, os.getuid()}:
        raise Refused("NotAllowed", "this service belongs to another user; run one of your own")
    if user != os.getuid():
        return  # root, whose processes another user may not inspect
    try:
        network = _network_of(connection, pid)
    except OSError as error:
        text = f"cannot tell where exec runs ({error.strerror}); run it on the service's host"
        raise Refused("NotAllowed", text) from error
    if network != Path("/proc/self/ns/net").readlink():
        text = (
            "a program inside a machine cannot act as another one; run `fairwarning exec` in the"
            " network namespace of the service"
        )
        raise Refused("NotAllowed", text)


def _network_of(connection: socket.socket, pid: int) -> Path:
    process = _open_process(connection, pid)
    try:
        network = Path(f"/proc/{pid}/ns/net").readlink()
        if process is not None:  # still the same process: its pid was not reused
            signal.pidfd_send_signal(process, 0)
    finally:
        if process is not None:
            os.close(process)
    return network


def _open_process(connection: socket.socket, pid: int) -> int | None:
    """Return a pidfd of the other end; None on kernels without pidfds."""
    try:
        return connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError as error:
        if error.errno != errno.ENOPROTOOPT:
            raise
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        if error.errno != errno.ENOSYS:
            raise
    return None
