"""HTTP/1.1 for both clients: requests as bytes, responses from bytes. Pure.

No byte of a response is believed: each line, number and length is checked before it is used, and
nothing is allocated for a length that was only announced.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from typing import TypeVar

from fairwarning.guest.endpoint import EndpointAddress
from fairwarning.guest.session import HttpRequest, HttpResponse

RESPONSE_BYTES = 4 * 1024 * 1024  # a document has at most a few hundred kilobytes
RECEIVE_BYTES = 64 * 1024
_LINE_BYTES = 16 * 1024
_HEADERS = 100
_STATUS = re.compile(rb"HTTP/1\.([0-9]) ([1-9][0-9]{2})(?: .*)?", re.DOTALL)
_LENGTH = re.compile("[0-9]{1,9}")
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;.*)?", re.DOTALL)
_SWITCHING, _FIRST_FINAL = 101, 200
_WITHOUT_BODY = frozenset({204, 304})

T = TypeVar("T")
Parsing = Generator[None, None, T]
"""Yields whenever it needs more bytes, and returns what it has parsed."""


class InvalidResponse(OSError):
    """The server sent something else than a complete response of acceptable size."""


def serialize(address: EndpointAddress, request: HttpRequest) -> bytes:
    """Return a request as bytes."""
    headers = {"Host": address.authority or "localhost", **request.headers}
    if request.body:
        headers["Content-Length"] = str(len(request.body))
    lines = [f"{request.method} {request.path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + request.body


class ResponseParser:
    """Parses one response while its bytes arrive."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._bytes_left = RESPONSE_BYTES
        self._is_closed = False
        self._parsing = self._response()
        next(self._parsing)
        self.has_data = False
        """Whether the server has sent anything."""
        self.is_reusable = False
        """Whether the connection can carry another request, once the response is complete."""

    def feed(self, data: bytes) -> HttpResponse | None:
        """Take received bytes, none at the end of the connection; return a complete response."""
        self._is_closed = not data
        self.has_data |= bool(data)
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise InvalidResponse("the response is too large")
        self._buffer += data
        try:
            next(self._parsing)
        except StopIteration as done:
            self.is_reusable = self.is_reusable and not self._buffer
            response: HttpResponse = done.value
            return response
        if self._is_closed:
            raise InvalidResponse("the connection was closed before the end of the response")
        return None

    def _response(self) -> Parsing[HttpResponse]:
        yield  # for the first bytes
        while True:
            minor, status = self._status(line := (yield from self._line()))
            headers = yield from self._headers()
            if status == _SWITCHING:
                raise InvalidResponse(f"the server changes the protocol: {line[:40]!r}")
            if status >= _FIRST_FINAL:  # others are interim
                break
        self.is_reusable = minor > 0 and "close" not in headers.get("connection", "").lower()
        body = yield from self._body(status, headers)
        return HttpResponse(status, headers, body)

    def _status(self, line: bytes) -> tuple[int, int]:
        match = _STATUS.fullmatch(line)
        if match is None:
            raise InvalidResponse(f"the response is not HTTP: {line[:40]!r}")
        return int(match[1]), int(match[2])

    def _headers(self) -> Parsing[dict[str, str]]:
        headers: dict[str, str] = {}
        for _ in range(_HEADERS):
            line = (yield from self._line()).decode("latin-1")
            if not line:
                return headers
            name, _, value = line.partition(":")
            name, value = name.strip().lower(), value.strip()
            if name == "content-length" and headers.get(name, value) != value:
                raise InvalidResponse("the response has two lengths")
            headers[name] = value
        raise InvalidResponse("the response has too many headers")

    def _body(self, status: int, headers: dict[str, str]) -> Parsing[bytes]:
        if status in _WITHOUT_BODY:
            return b""
        if "transfer-encoding" in headers:
            return (yield from self._chunks(headers["transfer-encoding"]))
        if "content-length" in headers:
            if not _LENGTH.fullmatch(length := headers["content-length"]):
                raise InvalidResponse(f"the response has the length {length[:40]!r}")
            return (yield from self._take(int(length)))
        self.is_reusable = False
        while not self._is_closed:
            yield
        return bytes(self._buffer)

    def _chunks(self, encoding: str) -> Parsing[bytes]:
        if encoding.lower() != "chunked":
            raise InvalidResponse(f"the response is encoded as {encoding[:40]!r}")
        body = bytearray()
        while True:
            line = yield from self._line()
            match = _CHUNK.fullmatch(line)
            if match is None:
                raise InvalidResponse(f"the response has a chunk of length {line[:40]!r}")
            size = int(match[1], 16)
            if not size:
                break
            body += yield from self._take(size)
            if (yield from self._line()):
                raise InvalidResponse("a chunk of the response is longer than its length")
        yield from self._headers()  # trailers
        return bytes(body)

    def _line(self) -> Parsing[bytes]:
        while (end := self._buffer.find(b"\n", 0, _LINE_BYTES)) < 0:
            if len(self._buffer) >= _LINE_BYTES:
                raise InvalidResponse("a line of the response is too long")
            yield
        return (yield from self._take(end + 1)).rstrip(b"\r\n")

    def _take(self, size: int) -> Parsing[bytes]:
        if size > len(self._buffer) + self._bytes_left:
            raise InvalidResponse("the response is too large")
        while len(self._buffer) < size:
            yield
        part = bytes(self._buffer[:size])
        del self._buffer[:size]
        return part
