"""Bytes in, requests out: httptools does the framing, the gate the rest."""

from typing import Final

import httptools

from fairwarning.core import limits
from fairwarning.core.record import short_record
from fairwarning.metadata.answers import RequestRefused
from fairwarning.metadata.validation import Header, ParsedHeaders, ParsedRequest, RequestValidator

_MALFORMED: Final = RequestRefused(
    400, "malformed", "Bad request. This is not HTTP as RFC 9112 has it."
)
_HEADERS: Final = RequestRefused(
    431,
    "headers",
    f"At most {limits.HEADER_FIELDS} headers and {limits.HEADER_BYTES} bytes of them.",
)
_BODY: Final = RequestRefused(413, "body", f"A body has at most {limits.BODY_BYTES} bytes.")
_BODY_RAW: Final = 2 * limits.BODY_BYTES  # with the sizes of its chunks
_CODING: Final = RequestRefused(
    400, "malformed", "Bad request. A body may be chunked, and nothing else."
)
_TRAILER: Final = RequestRefused(
    400, "trailer", "Bad request. Headers after the body are not allowed."
)
_UPGRADING: Final = frozenset({b"upgrade", b"http2-settings"})


@short_record
class ReceivedRequest:
    """A request that has been read: what it asks for, or why it is refused."""

    ask: ParsedRequest | None
    refusal: RequestRefused | None = None
    body: bytes = b""
    last: bool = False  # nothing after it can be read
    head: bool = False  # only a head may be sent
    spared: bool = False  # it has had its fault and its place in the rate


class RequestReader:
    """Reads one connection's requests, however they are cut up or run together.

    What is wrong with a request's head is known, and told, without waiting for its body.
    """

    __slots__ = (
        "_ask", "_body", "_gate", "_headers", "_ignored", "_parser", "_ready", "_size", "_target",
        "head", "in_body", "in_message", "wants_continue",
    )  # fmt: skip

    def __init__(self, gate: RequestValidator) -> None:
        self._gate = gate
        self._parser = httptools.HttpRequestParser(self)
        self._ready: list[ReceivedRequest] = []
        self.head: ParsedHeaders | None = None  # of the last request
        self._ignored = False  # refused; whatever comes is not looked at
        self.in_message = False
        self.in_body = False
        self.wants_continue = False

    def feed(self, data: bytes) -> list[ReceivedRequest]:
        """The requests that these bytes complete. After one that is `last`, feed no more."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as stop:
            self._cope(stop, data)
        if self.in_message:
            self._measure(len(data))
        ready, self._ready = self._ready, []
        return ready

    def _cope(self, stop: Exception, data: bytes) -> None:
        """The parser goes no further: for good, or because an upgrade was offered."""
        rest = memoryview(data)
        while isinstance(stop, httptools.HttpParserUpgrade) and self._decline():
            rest = rest[stop.args[0] :]
            try:
                self._parser.feed_data(rest)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as again:
                stop = again
            else:
                return
        self._refuse(_MALFORMED)

    def _measure(self, count: int) -> None:
        """A request that comes in pieces may not be larger for it."""
        if not self._ready:  # else most of these bytes are of others
            self._size += count
        if self._size > (_BODY_RAW if self.in_body else limits.HEADER_BYTES):
            self._refuse(_BODY if self.in_body else _HEADERS)

    def _decline(self) -> bool:
        """An upgrade was offered, which ends HTTP for the parser: read the request without it."""
        method = self._parser.get_method()
        if self._ignored or method == b"CONNECT":
            return False
        http = self._parser.get_http_version().encode()
        lines = [b"%s %s HTTP/%s" % (method, self._target, http)]
        for name, value in self._headers:
            if name.lower() == b"connection":
                lines.append(b"Connection: " + _without_upgrade(value))
            elif name.lower() not in _UPGRADING:
                lines.append(name + b": " + value)
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(b"\r\n".join([*lines, b"", b""]))
        return True

    def _refuse(self, refusal: RequestRefused) -> None:
        if not self._ignored:
            self._ignored = True
            self._ready.append(ReceivedRequest(None, refusal, last=True))

    # --- What httptools calls ---

    def on_message_begin(self) -> None:
        """A request's first byte."""
        self.in_message = True
        self._target = b""
        self._headers: list[Header] = []
        self._ask: ParsedRequest | None = None
        self._body = b""
        self._size = 0  # of the head, or of the body, as far as it came in pieces

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
        parser = self._parser
        if parser.should_upgrade():
            return
        self.in_body = True
        self._size = 0
        if self._ignored:
            return
        http = parser.get_http_version()
        keep = parser.should_keep_alive() and http == "1.1"
        method = parser.get_method()
        try:
            if len(self._headers) > limits.HEADER_FIELDS:
                raise _HEADERS
            head = self.head = self._gate.check_head(self._headers, http)
            if head.size + len(self._target) > limits.HEADER_BYTES:
                raise _HEADERS
            ask = self._gate.check(method, self._target, head, close=not keep)
            if head.framing:
                self._check_body(head.framing, http)
            self._ask = ask
        except RequestRefused as refusal:
            self._refuse_head(refusal, method, keep=keep)

    def _check_body(self, framing: dict[bytes, bytes], http: str) -> None:
        coding = framing.get(b"transfer-encoding")
        if coding is not None and (coding.lower() != b"chunked" or http != "1.1"):
            raise _CODING
        if int(framing.get(b"content-length", 0)) > limits.BODY_BYTES:
            raise _BODY
        self.wants_continue = framing.get(b"expect", b"").lower() == b"100-continue"

    def _refuse_head(self, refusal: RequestRefused, method: bytes, *, keep: bool) -> None:
        """Without a body the connection is still in step, and can go on."""
        bodies = {b"transfer-encoding", b"content-length"}
        lengths = [value for name, value in self._headers if name.lower() in bodies]
        if refusal is _HEADERS or any(value != b"0" for value in lengths):
            self._refuse(refusal)
        else:
            self._ignored = not keep
            self._ready.append(
                ReceivedRequest(None, refusal, last=not keep, head=method == b"HEAD")
            )

    def on_body(self, body: bytes) -> None:
        """A part of the body."""
        if len(self._body) + len(body) > limits.BODY_BYTES:
            self._refuse(_BODY)
        elif not self._ignored:
            self._body += body

    def on_message_complete(self) -> None:
        """A request's last byte."""
        self.in_message = self.in_body = self.wants_continue = False
        ask = self._ask
        if ask is not None and not self._ignored:
            self._ready.append(ReceivedRequest(ask, None, self._body, ask.close))
            self._ignored = ask.close


def _without_upgrade(connection: bytes) -> bytes:
    words = [word.strip() for word in connection.split(b",")]
    return b", ".join(word for word in words if word.lower() not in _UPGRADING)
