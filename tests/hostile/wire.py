"""HTTP as bytes: requests written by hand, and responses parsed strictly in order."""

import json
import socket
import struct
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from tests.fixtures.endpoint import POLL_TARGET
from tests.fixtures.waiting import LIMIT_SECONDS

TARGET = POLL_TARGET
HOST = "Host: 169.254.169.254"
METADATA = "Metadata: true"
GOOD = (HOST, METADATA)

EVENT = "EEEEEEEE-0000-4000-8000-EEEEEEEEEEEE"
"""A placeholder for the id of an existing event, which `with_event` replaces."""

RESET = struct.pack("ii", 1, 0)
"""SO_LINGER on, zero seconds: `close` resets the connection."""

_BODYLESS = {100, 304}


def head(method: str, target: str, *lines: str, version: str = "HTTP/1.1") -> bytes:
    """Return the head of a request with exactly these lines."""
    return "\r\n".join([f"{method} {target} {version}", *lines, "", ""]).encode("latin-1")


def get(*more: str, target: str = TARGET) -> bytes:
    """Return a valid poll with additional lines."""
    return head("GET", target, *GOOD, *more)


def post(body: bytes, *more: str, target: str = TARGET) -> bytes:
    """Return a valid POST of this body with additional lines."""
    return head("POST", target, *GOOD, f"Content-Length: {len(body)}", *more) + body


def approval(*events: str) -> bytes:
    """Return the body that approves these events."""
    return json.dumps({"StartRequests": [{"EventId": event} for event in events]}).encode()


POLL = get()
APPROVE = post(approval(EVENT))


def with_event(part: bytes, event: str) -> bytes:
    """Insert an event's id into these bytes."""
    return part.replace(EVENT.encode(), event.encode())


@dataclass(frozen=True)
class Reply:
    """A response, and its bytes."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes
    raw: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401  (any JSON value)
        return json.loads(self.body)

    @property
    def closes(self) -> bool:
        return self.headers.get("connection") == "close"


class Client:
    """A connection that sends exact bytes and parses exact bytes."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.settimeout(LIMIT_SECONDS)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, *parts: bytes) -> None:
        """Send each part separately; the server may close before the end."""
        with suppress(ConnectionResetError, BrokenPipeError):
            for part in parts:
                self.sock.sendall(part)

    def request(self, *parts: bytes) -> Reply:
        self.send(*parts)
        return self.reply()

    def reply(self) -> Reply:
        """Return the next response; raise `EOFError` if there is none."""
        reply = self.next()
        if reply is None:
            raise EOFError("closed without a response")
        return reply

    def bare_head(self) -> Reply:
        """Return the response to a HEAD, which has no body, whatever its headers say."""
        reply = self.next(bodyless=True)
        assert reply is not None
        return reply

    def next(self, *, bodyless: bool = False) -> Reply | None:
        """Return the next response; None if the server closes instead."""
        while b"\r\n\r\n" not in self._rest:
            if not self._more():
                assert not self._rest, f"incomplete response: {self._rest!r}"
                return None
        raw, _, rest = self._rest.partition(b"\r\n\r\n")
        status, headers = _head(raw)
        size = 0 if bodyless or status in _BODYLESS else int(headers["content-length"])
        self._rest = rest
        while len(self._rest) < size:
            assert self._more(), f"truncated body: {self._rest!r}"
        body, self._rest = self._rest[:size], self._rest[size:]
        return Reply(status, headers, body, raw + b"\r\n\r\n" + body)

    def replies(self) -> list[Reply]:
        """Return all responses until the server closes."""
        replies = []
        while reply := self.next():
            replies.append(reply)
        return replies

    def finish(self) -> list[Reply]:
        """Close the sending side; return all responses until the server closes."""
        with suppress(OSError):  # the server may have closed it
            self.sock.shutdown(socket.SHUT_WR)
        return self.replies()

    def _more(self) -> bool:
        try:
            data = self.sock.recv(65536)
        except ConnectionResetError:
            data = b""
        self._rest += data
        return bool(data)


def _head(raw: bytes) -> tuple[int, dict[str, str]]:
    """Parse status and headers; no header may repeat, and all must be plain text."""
    first, *lines = raw.decode("ascii").split("\r\n")
    version, status, _ = first.split(" ", 2)
    assert version == "HTTP/1.1", first
    headers: dict[str, str] = {}
    for line in lines:
        name, separator, value = line.partition(": ")
        assert separator, line
        assert name.lower() not in headers, line
        headers[name.lower()] = value
    return int(status), headers
