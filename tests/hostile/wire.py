"""HTTP as bytes: requests written by hand, answers read strictly, one after the other."""

import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from tests.fixtures.endpoint import POLL_TARGET
from tests.fixtures.waiting import LIMIT_SECONDS

TARGET = POLL_TARGET
HOST = "Host: 169.254.169.254"
METADATA = "Metadata: true"
GOOD = (HOST, METADATA)

EVENT = "EEEEEEEE-0000-4000-8000-EEEEEEEEEEEE"
"""Stands for the id of an event that exists: whoever sends it puts the real one in its place."""

_BODYLESS = {100, 304}


def head(method: str, target: str, *lines: str, version: str = "HTTP/1.1") -> bytes:
    """A request's head, its lines as they are given."""
    return "\r\n".join([f"{method} {target} {version}", *lines, "", ""]).encode("latin-1")


def get(*more: str, target: str = TARGET) -> bytes:
    """A good poll, and whatever is wrong with it."""
    return head("GET", target, *GOOD, *more)


def post(body: bytes, *more: str, target: str = TARGET) -> bytes:
    """A good POST of this body, and whatever is wrong with it."""
    return head("POST", target, *GOOD, f"Content-Length: {len(body)}", *more) + body


def approval(*events: str) -> bytes:
    """The body that approves these events."""
    return json.dumps({"StartRequests": [{"EventId": event} for event in events]}).encode()


POLL = get()
APPROVE = post(approval(EVENT))


def at(part: bytes, event: str) -> bytes:
    """These bytes, about this event."""
    return part.replace(EVENT.encode(), event.encode())


@dataclass(frozen=True)
class Reply:
    """One answer, and the bytes it came in."""

    status: int
    headers: Mapping[str, str]  # names in lower case
    body: bytes
    raw: bytes

    @property
    def json(self) -> Any:  # noqa: ANN401  (whatever it is)
        """The body, read."""
        return json.loads(self.body)

    @property
    def closes(self) -> bool:
        """Whether it says that nothing follows."""
        return self.headers.get("connection") == "close"


class Client:
    """A connection that says exactly what it is told to, and believes nothing but the bytes."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        sock.settimeout(LIMIT_SECONDS)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.sock.close()

    def send(self, *parts: bytes) -> None:
        """Send each part by itself; the other side may have had enough before the end."""
        with suppress(ConnectionResetError, BrokenPipeError):
            for part in parts:
                self.sock.sendall(part)

    def ask(self, *parts: bytes) -> Reply:
        """Send, and the answer."""
        self.send(*parts)
        return self.reply()

    def reply(self) -> Reply:
        """The next answer; `EOFError` if there is none."""
        reply = self.next()
        if reply is None:
            raise EOFError("closed without an answer")
        return reply

    def bare_head(self) -> Reply:
        """The answer to a HEAD, which has no body, whatever its headers say."""
        reply = self.next(bodyless=True)
        assert reply is not None
        return reply

    def next(self, *, bodyless: bool = False) -> Reply | None:
        """The next answer; None if the other side closes instead."""
        while b"\r\n\r\n" not in self._rest:
            if not self._more():
                assert not self._rest, f"half an answer: {self._rest!r}"
                return None
        raw, _, rest = self._rest.partition(b"\r\n\r\n")
        status, headers = _head(raw)
        size = 0 if bodyless or status in _BODYLESS else int(headers["content-length"])
        self._rest = rest
        while len(self._rest) < size:
            assert self._more(), f"a body cut short: {self._rest!r}"
        body, self._rest = self._rest[:size], self._rest[size:]
        return Reply(status, headers, body, raw + b"\r\n\r\n" + body)

    def replies(self) -> list[Reply]:
        """All answers until the other side closes."""
        found = []
        while reply := self.next():
            found.append(reply)
        return found

    def finish(self) -> list[Reply]:
        """Say that no more follows; all answers until the other side closes."""
        with suppress(OSError):  # it may have gone already
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
    """Status and headers; no header comes twice, and none is anything but plain text."""
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
