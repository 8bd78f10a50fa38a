"""A channel between two processes of one `exec`.

Each message is a list of words, sent as JSON after its length; descriptors may be attached to it.
"""

import json
import os
import select
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress

Word = str | int | bool
Words = list[Word]

_LENGTH = struct.Struct("!I")
_DESCRIPTORS = 128  # with one message


class Channel:
    """One end of a channel."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    @classmethod
    def pair(cls) -> "tuple[Channel, Channel]":
        """Create both ends."""
        # Not of the kind that keeps messages apart, which macOS does not have.
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(one), cls(other)

    def fileno(self) -> int:
        """Return the descriptor, to wait for a message."""
        return self._end.fileno()

    def set_nonblocking(self) -> None:
        """Have `receive` return the word "nothing" where it would wait."""
        self._end.settimeout(0)

    def send(self, *words: Word, descriptors: Sequence[int] = ()) -> None:
        """Send a message. If the other end is gone, `receive` returns no words."""
        text = json.dumps(words).encode()
        with suppress(OSError):
            socket.send_fds(self._end, [_LENGTH.pack(len(text)) + text], descriptors)

    def receive(self) -> tuple[Words, list[int]]:
        """Return the next message and its descriptors; no words if the other end is gone."""
        try:
            head, descriptors = self._receive_head()
        except BlockingIOError:
            return ["nothing"], []
        except OSError:
            return [], []
        text = self._complete(b"", _LENGTH.unpack(head)[0]) if head else b""
        return json.loads(text) if text else [], descriptors

    def _receive_head(self) -> tuple[bytes, list[int]]:
        for _ in range(2):
            # An end that was closed before it had read all messages is reported first, once, and
            # then the messages that it had sent.
            with suppress(ConnectionResetError):
                head, descriptors = receive_descriptors(self._end, _LENGTH.size, _DESCRIPTORS)
                return self._complete(head, _LENGTH.size) if head else b"", descriptors
        return b"", []

    def _complete(self, received: bytes, size: int) -> bytes:
        """Receive the rest of a message that has begun; nothing if the other end is gone."""
        while len(received) < size:
            try:
                more = self._end.recv(size - len(received))
            except BlockingIOError:
                select.select((self._end,), (), ())
                continue
            except OSError:
                return b""
            if not more:
                return b""
            received += more
        return received

    def close(self) -> None:
        self._end.close()


def receive_descriptors(
    connection: socket.socket, size: int, count: int
) -> tuple[bytes, list[int]]:
    """Receive bytes, and descriptors that programs do not inherit."""
    flags = getattr(socket, "MSG_CMSG_CLOEXEC", 0)  # not on macOS
    data, descriptors, _, _ = socket.recv_fds(connection, size, count, flags)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)  # noqa: FBT003  (positional only)
    return data, descriptors


def close_all(descriptors: Sequence[int]) -> None:
    """Close descriptors that are not used."""
    for descriptor in descriptors:
        os.close(descriptor)
