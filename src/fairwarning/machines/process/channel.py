"""A channel between two processes of one `exec`.

Each message is a list of words, sent as JSON; descriptors may be attached to it.
"""

import json
import os
import socket
from collections.abc import Sequence
from contextlib import suppress

Word = str | int | bool
Words = list[Word]

_MESSAGE_BYTES = 64 * 1024
_DESCRIPTORS = 128  # with one message


class Channel:
    """One end of a channel."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end

    @classmethod
    def pair(cls) -> "tuple[Channel, Channel]":
        """Create both ends."""
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(one), cls(other)

    def fileno(self) -> int:
        """Return the descriptor, to wait for a message."""
        return self._end.fileno()

    def set_nonblocking(self) -> None:
        """Have `receive` return the word "nothing" where it would wait."""
        self._end.settimeout(0)

    def send(self, *words: Word, descriptors: Sequence[int] = ()) -> None:
        """Send a message. If the other end is gone, `receive` returns no words."""
        with suppress(OSError):
            socket.send_fds(self._end, [json.dumps(words).encode()], descriptors)

    def receive(self) -> tuple[Words, list[int]]:
        """Return the next message and its descriptors; no words if the other end is gone."""
        try:
            message, descriptors = self._receive()
        except BlockingIOError:
            return ["nothing"], []
        except OSError:
            return [], []
        return json.loads(message) if message else [], descriptors

    def _receive(self) -> tuple[bytes, list[int]]:
        for _ in range(2):
            # An end that was closed before it had read all messages is reported first, once, and
            # then the messages that it had sent.
            with suppress(ConnectionResetError):
                message, descriptors, _, _ = socket.recv_fds(
                    self._end, _MESSAGE_BYTES, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
                )
                return message, descriptors
        return b"", []

    def close(self) -> None:
        self._end.close()


def close_all(descriptors: Sequence[int]) -> None:
    """Close descriptors that are not used."""
    for descriptor in descriptors:
        os.close(descriptor)
