"""Turn bytes into requests: httptools does the framing, the validator checks the rest."""

import re
from typing import Final

import httptools

from fairwarning.core import limits
from fairwarning.core.record import short_record
from fairwarning.metadata.answers import Refusal, RequestRefused
from fairwarning.metadata.validation import (
    Header,
    ParsedHeaders,
    ParsedRequest,
    RequestValidator,
    check_no_browser,
)

_OTHER_HOST: Final = Refusal(
    403,
    "proxy",
    "Forbidden. This proxy answers for http://169.254.169.254 only; to reach another host"
    " directly, add it to no_proxy before you start `fairwarning exec`.",
)
_URL = re.compile(rb"(?i:http)://169\.254\.169\.254(?::80)?(?P<target>[/?][!-~]*)?")
_MALFORMED: Final = Refusal(400, "malformed", "Bad request. This is not valid HTTP (RFC 9112).")
_HEADERS: Final = Refusal(
    431,
    "headers",
    f"At most {limits.HEADER_FIELDS} headers with {limits.HEADER_BYTES} bytes are allowed.",
)
_BODY: Final = Refusal(413, "body", f"A body may have at most {limits.BODY_BYTES} bytes.")
_BODY_RAW: Final = 2 * limits.BODY_BYTES  # including chunk sizes
_CODING: Final = Refusal(
    400, "malformed", "Bad request. chunked is the only transfer coding allowed."
)
_TRAILER: Final = Refusal(
    400, "trailer", "Bad request. Trailers (headers after the body) are not allowed."
)
CACHE_REQUESTS: Final = 1024
_REQUEST_BYTES: Final = 1024  # pollers send about 150
_PATH: Final = (
    b"GET /"  # not the URL that a client sends to a proxy, which not every listener accepts
)
_UPGRADING: Final = frozenset({b"upgrade", b"http2-settings"})


@short_record
class ReceivedRequest:
    """A request that has been read: parsed, or refused."""

    parsed: ParsedRequest | None
    refusal: Refusal | None = None
    body: bytes = b""
    last: bool = False  # the connection closes after it
    head: bool = False  # a HEAD request: send no body
    approval: bool = False  # a POST
    exempt: bool = False  # rate limit and fault rules have been applied already


class RequestReader:
    """Reads the requests of one connection, whether split into pieces or pipelined.

    A request with a bad head is refused at once, without waiting for its body.
    """

    __slots__ = (
        "_body",
        "_discarding",
        "_headers",
        "_method",
        "_parsed",
        "_parser",
        "_proxy",
        "_ready",
        "_size",
        "_target",
        "_validator",
        "head",
        "in_body",
        "in_message",
        "wants_continue",
    )  # fmt: skip

    def __init__(self, validator: RequestValidator, *, proxy: bool = False) -> None:
        self._validator = validator
        self._proxy = proxy  # also accept what clients send to a proxy
        self._parser = httptools.HttpRequestParser(self)
        self._ready: list[ReceivedRequest] = []
        self._method = b""
        self.head: ParsedHeaders | None = None  # of the last request
        self._discarding = False  # the request is refused: ignore further bytes
        self.in_message = False
        self.in_body = False
        self.wants_continue = False

    def feed(self, data: bytes) -> list[ReceivedRequest]:
        """Return the requests that these bytes complete. Feed no more after a `last` request."""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as stop:
            self._recover(stop, data)
        if self.in_message:
            self._check_size(len(data))
        ready, self._ready = self._ready, []
        return ready

    def _recover(self, stop: Exception, data: bytes) -> None:
        """Handle a parser stop: refuse a malformed request, ignore an offered upgrade."""
        remaining = memoryview(data)
        while isinstance(stop, httptools.HttpParserUpgrade) and self._reparse_without_upgrade():
            remaining = remaining[stop.args[0] :]
            try:
                self._parser.feed_data(remaining)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as next_stop:
                stop = next_stop
            else:
                return
        tunnel = self._proxy and isinstance(stop, httptools.HttpParserUpgrade)  # CONNECT
        self._refuse(_OTHER_HOST if tunnel else _MALFORMED)

    def _check_size(self, count: int) -> None:
        """Apply the size limits to a request that arrives in pieces."""
        if not self._ready:  # otherwise most of these bytes belong to earlier requests
            self._size += count
        if self._size > (_BODY_RAW if self.in_body else limits.HEADER_BYTES):
            self._refuse(_BODY if self.in_body else _HEADERS)

    def _reparse_without_upgrade(self) -> bool:
        """Parse the request again without its upgrade headers, at which the parser stops."""
        method = self._parser.get_method()
        if self._discarding or method == b"CONNECT":
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

    def _refuse(self, refusal: Refusal) -> None:
        if not self._discarding:
            self._discarding = True
            self._ready.append(
                ReceivedRequest(None, refusal, last=True, approval=self._method == b"POST")
            )

    # --- Called by httptools ---

    def on_message_begin(self) -> None:
        """Begin a request."""
        self.in_message = True
        self._target = self._method = b""
        self._headers: list[Header] = []
        self._parsed: ParsedRequest | None = None
        self._body = b""
        self._size = 0  # bytes of the head or of the body that arrived in separate pieces

    def on_url(self, url: bytes) -> None:
        """Take the target, or a part of it."""
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; refuse a trailer."""
        if self.in_body:
            self._refuse(_TRAILER)
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        """Validate the head, before the body arrives."""
        parser = self._parser
        if parser.should_upgrade():
            return
        self.in_body = True
        self._size = 0
        if self._discarding:
            return
        http = parser.get_http_version()
        keep = parser.should_keep_alive() and http == "1.1"
        method = self._method = parser.get_method()
        try:
            if len(self._headers) > limits.HEADER_FIELDS:
                raise RequestRefused(_HEADERS)
            target = _origin_form(self._target) if self._proxy else self._target
            head = self.head = self._validator.check_head(self._headers, http)
            if head.size + len(self._target) > limits.HEADER_BYTES:
                raise RequestRefused(_HEADERS)
            parsed = self._validator.check(method, target, head, close=not keep)
            if head.metadata is None:
                check_no_browser(self._headers)
            if head.framing:
                self._check_body(head.framing, http)
            self._parsed = parsed
        except RequestRefused as refused:
            self._refuse_head(refused.refusal, method, keep=keep)

    def _check_body(self, framing: dict[bytes, bytes], http: str) -> None:
        coding = framing.get(b"transfer-encoding")
        if coding is not None and (coding.lower() != b"chunked" or http != "1.1"):
            raise RequestRefused(_CODING)
        if int(framing.get(b"content-length", 0)) > limits.BODY_BYTES:
            raise RequestRefused(_BODY)
        self.wants_continue = framing.get(b"expect", b"").lower() == b"100-continue"

    def _refuse_head(self, refusal: Refusal, method: bytes, *, keep: bool) -> None:
        """Refuse the request; keep the connection open if the request has no body to skip."""
        framing = {b"transfer-encoding", b"content-length"}
        lengths = [value for name, value in self._headers if name.lower() in framing]
        if refusal is _HEADERS or any(value != b"0" for value in lengths):
            self._refuse(refusal)
        else:
            self._discarding = not keep
            self._ready.append(
                ReceivedRequest(
                    None,
                    refusal,
                    last=not keep,
                    head=method == b"HEAD",
                    approval=method == b"POST",
                )
            )

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        if len(self._body) + len(body) > limits.BODY_BYTES:
            self._refuse(_BODY)
        elif not self._discarding:
            self._body += body

    def on_message_complete(self) -> None:
        """End the request."""
        self.in_message = self.in_body = self.wants_continue = False
        parsed = self._parsed
        if parsed is not None and not self._discarding:
            self._ready.append(
                ReceivedRequest(
                    parsed, None, self._body, parsed.close, approval=parsed.method == b"POST"
                )
            )
            self._discarding = parsed.close


def _origin_form(target: bytes) -> bytes:
    """Return path and query of a target; raise `RequestRefused` if it names another host.

    A program that runs without a network of its own takes its endpoint for its HTTP proxy (O12):
    the client asks for http://169.254.169.254. Nothing is ever forwarded to another host.
    """
    if target.startswith(b"/"):
        return target
    match = _URL.fullmatch(target)
    if match is None:
        raise RequestRefused(_OTHER_HOST)
    path = match["target"] or b"/"
    return path if path.startswith(b"/") else b"/" + path


def _without_upgrade(connection: bytes) -> bytes:
    options = [option.strip() for option in connection.split(b",")]
    return b", ".join(option for option in options if option.lower() not in _UPGRADING)


class RequestCache:
    """A cache of GET requests that passed every check, by their bytes.

    It holds nothing about the caller: each connection identifies its own (M22). The validator
    caches header blocks as well.
    """

    def __init__(self, validator: RequestValidator) -> None:
        self._validator = validator
        self.requests: dict[bytes, ParsedRequest] = {}

    def add(self, data: bytes, request: ReceivedRequest, head: ParsedHeaders | None) -> bool:
        """Cache the bytes of one request if it is a valid GET; return whether it was cached."""
        parsed = request.parsed
        if parsed is None or parsed.method != b"GET" or request.body or head is None:
            return False
        if len(data) > _REQUEST_BYTES or not data.startswith(_PATH):
            return False
        self._validator.cache_headers(data, head, close=parsed.close)
        self._store(data, parsed)
        return True

    def parse(self, data: bytes) -> ParsedRequest | None:
        """Parse and cache a GET whose headers are cached; None if the reader must read it."""
        if len(data) > _REQUEST_BYTES:
            return None
        try:
            parsed = self._validator.parse_cached(data)
        except RequestRefused:
            return None
        if parsed is not None:
            self._store(data, parsed)
        return parsed

    def _store(self, data: bytes, parsed: ParsedRequest) -> None:
        requests = self.requests
        if len(requests) >= CACHE_REQUESTS:
            requests.clear()  # evicting entries one by one costs more than parsing them again
        requests[data] = parsed
