"""Bytes in, requests out: httptools does the framing, the gate the rest."""

from typing import Final

import httptools

from fairwarning.core import limits
from fairwarning.core.record import short_record
from fairwarning.metadata.answers import Refusal
from fairwarning.metadata.gate import Ask, Gate

_MALFORMED: Final = Refusal(400, "malformed", "Bad request. This is not HTTP as RFC 9112 has it.")
_HEADERS: Final = Refusal(
    431,
    "headers",
    f"At most {limits.HEADER_FIELDS} headers and {limits.HEADER_BYTES} bytes of them.",
)
_BODY: Final = Refusal(413, "body", f"A body has at most {limits.BODY_BYTES} bytes.")
_CODING: Final = Refusal(400, "malformed", "Bad request. A body may be chunked, and nothing else.")
_BODY_RAW: Final = 2 * limits.BODY_BYTES  # with the sizes of its chunks
_TRAILER: Final = Refusal(400, "trailer", "Bad request. Headers after the body are not allowed.")
_UPGRADING: Final = frozenset({b"upgrade", b"http2-settings"})


@short_record
class Request:
    """A request that has been read: what it asks for, or why it is refused."""

    ask: Ask | None
    refusal: Refusal | None = None
    body: bytes = b""
    last: bool = False  # nothing after it can be read
    head: bool = False  # only a head may be sent
    spared: bool = False  # it has had its fault and its place in the rate


class Reader:
    """Reads one connection's requests, however they are cut up or run together.

    What is wrong with a request's head is known, and told, without waiting for its body.
    """

    __slots__ = (
        "_ask", "_body", "_body_bytes", "_gate", "_headers", "_ignored", "_parser", "_ready",
        "_size", "_target", "began", "in_body", "in_message", "wants_continue",
    )  # fmt: skip

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._parser = httptools.HttpRequestParser(self)
        self._ready: list[Request] = []
        self._size = 0  # bytes of the head, or of the body, that came in pieces
        self._ignored = False  # refused; whatever comes is not looked at
        self.began = 0
        self.in_message = False
        self.in_body = False
        self.wants_continue = False

    def feed(self, data: bytes) -> list[Request]:
        """The requests that these bytes complete. After one that is `last`, feed no more."""
        began, in_body = self.began, self.in_body
        self._parse(data)
        if in_body and self.in_body:
            self._size += len(data)
        elif self.in_message and not self.in_body and began in {0, self.began}:
            # Where other requests came before it, who knows which bytes are of this one.
            self._size += 0 if self._ready else len(data)
        if self.in_message and self._size > (_BODY_RAW if self.in_body else limits.HEADER_BYTES):
            self._refuse(_BODY if self.in_body else _HEADERS)
        ready, self._ready = self._ready, []
        return ready

    def _parse(self, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                try:
                    self._parser.feed_data(rest)
                    return
                except httptools.HttpParserUpgrade as upgrade:
                    rest = rest[upgrade.args[0] :]
                    self._decline()
        except httptools.HttpParserError:
            self._refuse(_MALFORMED)

    def _decline(self) -> None:
        """An upgrade was offered, which ends HTTP for the parser: read the request without it."""
        method = self._parser.get_method()
        if self._ignored or method == b"CONNECT":
            raise httptools.HttpParserError("not an upgrade")
        http = self._parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (method, self._target, http)]
        for name, value in self._headers:
            if name.lower() == b"connection":
                lines.append(b"Connection: " + _without_upgrade(value))
            elif name.lower() not in _UPGRADING:
                lines.append(name + b": " + value)
        self._parser = httptools.HttpRequestParser(self)
        self.began -= 1
        self._parser.feed_data(b"\r\n".join([*lines, b"", b""]))

    def _refuse(self, refusal: Refusal) -> None:
        if not self._ignored:
            self._ignored = True
            self._ready.append(Request(None, refusal, last=True))

    # --- What httptools calls ---

    def on_message_begin(self) -> None:
        """A request's first byte."""
        self.began += 1
        self.in_message = True
        self._target = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._ask: Ask | None = None
        self._body: list[bytes] = []
        self._body_bytes = self._size = 0

    def on_url(self, url: bytes) -> None:
        """The target, or a part of it."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header; or, after a body, a trailer."""
        if self.in_body:
            self._refuse(_TRAILER)
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Everything is known but the body."""
        if self._parser.should_upgrade():
            return
        self.in_body = True
        self._size = 0
        if self._ignored:
            return
        try:
            self._ask = self._check()
        except Refusal as refusal:
            # Without a body the connection is still in step, and can go on.
            if self._has_body() or refusal is _HEADERS:
                self._refuse(refusal)
            else:
                self._ignored = not self._keeps()
                head = self._parser.get_method() == b"HEAD"
                self._ready.append(Request(None, refusal, last=self._ignored, head=head))

    def _keeps(self) -> bool:
        return self._parser.should_keep_alive() and self._parser.get_http_version() == "1.1"

    def _check(self) -> Ask:
        headers = self._headers
        size = sum(len(name) + len(value) + 4 for name, value in headers) + len(self._target)
        if len(headers) > limits.HEADER_FIELDS or size > limits.HEADER_BYTES:
            raise _HEADERS
        parser = self._parser
        ask = self._gate.check(
            parser.get_method().decode("latin-1"),
            self._target,
            parser.get_http_version(),
            headers,
            keep=self._keeps(),
        )
        codings = self._values(b"transfer-encoding")
        if codings and (codings != [b"chunked"] or parser.get_http_version() != "1.1"):
            raise _CODING
        if self._length() > limits.BODY_BYTES:
            raise _BODY
        self.wants_continue = self._values(b"expect") == [b"100-continue"]
        return ask

    def _has_body(self) -> bool:
        return bool(self._values(b"transfer-encoding")) or self._length() > 0

    def _length(self) -> int:
        """What Content-Length says; the parser has seen that it is a number."""
        return int((self._values(b"content-length") or [b"0"])[0])

    def _values(self, name: bytes) -> list[bytes]:
        return [value.lower() for sent, value in self._headers if sent.lower() == name]

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        self._body_bytes += len(body)
        if self._body_bytes > limits.BODY_BYTES:
            self._refuse(_BODY)
        if not self._ignored:
            self._body.append(body)

    def on_message_complete(self) -> None:
        """A request's last byte."""
        self.in_message = self.in_body = self.wants_continue = False
        if self._ask is not None and not self._ignored:
            self._ready.append(Request(self._ask, None, b"".join(self._body), self._ask.close))
            self._ignored = self._ask.close


def _without_upgrade(connection: bytes) -> bytes:
    words = [word.strip() for word in connection.split(b",")]
    return b", ".join(word for word in words if word.lower() not in _UPGRADING)
