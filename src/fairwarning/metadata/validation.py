"""Request validation: refuse every request that is not exactly as specified (IS1).

No parser is strict enough alone, so all relevant parts are checked here on the raw bytes, without
decoding, normalising or guessing. Validation knows nothing of the caller: the connection identifies
it, never the request (M22).
"""

import re
from collections.abc import Sequence
from urllib.parse import unquote_plus

from fairwarning.core import limits
from fairwarning.core.document import VERSIONS
from fairwarning.core.record import short_record
from fairwarning.metadata import instance
from fairwarning.metadata.answers import Refusal, RequestRefused
from fairwarning.service.config.settings import MetadataSettings

Header = tuple[bytes, bytes]

PREVIEW = "2024-07-09"

EVENTS = "/metadata/scheduledevents"
INSTANCE = "/metadata/instance"
API_VERSIONS = "/metadata/versions"
_HTTP_VERSIONS = frozenset({"1.1", "1.0"})
_CACHED_BLOCKS = 1024
_GET = re.compile(rb"GET (/[!-~]*) HTTP/1\.1")
_METHODS = {EVENTS: (b"GET", b"POST"), INSTANCE: (b"GET",), API_VERSIONS: (b"GET",)}

# A proxy that forwards requests must not be mistaken for the machine it runs on (M5).
_FORWARDING = frozenset(
    {b"x-real-ip", b"via", b"x-client-ip", b"true-client-ip", b"x-cluster-client-ip"}
)
# Headers of ordinary clients, which need no check.
_UNCHECKED = frozenset(
    {b"user-agent", b"accept", b"accept-encoding", b"connection", b"content-type"}
)
_ONCE = frozenset(
    {
        b"host", b"metadata", b"if-none-match",
        b"content-length", b"transfer-encoding", b"expect",
    }
)  # fmt: skip
_HOST = re.compile(r"(?P<name>[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_ADDRESS = re.compile(r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}|\[[0-9a-f:.]+\]", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TAG = re.compile(r'(?:W/)?"?([0-9]+)"?')


@short_record
class ParsedRequest:
    """A validated request. It holds nothing about the caller, so it can be cached."""

    method: bytes
    path: str
    version: str
    close: bool
    segments: tuple[str, ...] = ()  # below /metadata/instance
    text: bool = False
    incarnations: frozenset[str] = frozenset()  # from If-None-Match (M11)
    wait: int = 0
    key: str = ""  # of the rendered response; set for a plain poll only


@short_record
class ParsedHeaders:
    """The headers of a request that matter."""

    metadata: bytes | None
    if_none_match: bytes | None
    size: int
    framing: dict[bytes, bytes]  # Content-Length, Transfer-Encoding and Expect


class RequestValidator:
    """Checks and parses requests."""

    def __init__(self, settings: MetadataSettings) -> None:
        self._settings = settings
        self._blocks: dict[bytes, tuple[ParsedHeaders, bool]] = {}
        """Valid header blocks by their bytes, and whether they close the connection. The header
        block of a GET means the same whatever its request line is."""
        self._polls: dict[str, ParsedRequest] = {}  # plain polls, by key

    def cache_headers(self, data: bytes, head: ParsedHeaders, *, close: bool) -> None:
        """Cache the header block of a complete GET without a body."""
        line, _, block = data.partition(b"\r\n")
        if _GET.fullmatch(line):
            if len(self._blocks) >= _CACHED_BLOCKS:
                self._blocks.clear()
            self._blocks[block] = (head, close)

    def parse_cached(self, data: bytes) -> ParsedRequest | None:
        """Parse a GET whose header block is cached; None if the reader must read it."""
        line, _, block = data.partition(b"\r\n")
        cached = self._blocks.get(block)
        match = _GET.fullmatch(line) if cached else None
        if cached is None or match is None:
            return None
        return self.check(b"GET", match[1], cached[0], close=cached[1])

    def check_head(self, headers: Sequence[Header], http: str) -> ParsedHeaders:
        """Parse the headers; raise `RequestRefused` if they are not allowed."""
        values, size = _single_headers(headers)
        if http not in _HTTP_VERSIONS:
            raise _bad("http-version", f"HTTP {http} is not supported; use HTTP/1.1")
        self._check_host(values.pop(b"host", None), http)
        metadata, if_none_match = values.pop(b"metadata", None), values.pop(b"if-none-match", None)
        return ParsedHeaders(metadata, if_none_match, size, values)

    def check(
        self, method: bytes, target: bytes, head: ParsedHeaders, *, close: bool
    ) -> ParsedRequest:
        """Parse the request; raise `RequestRefused` if it is not valid."""
        try:
            path, segments, query = _split(target)
            _check_method(path, method)
            version = self._version(path, query)
        except RequestRefused:
            _check_metadata(head.metadata, optional=False)  # clients rely on this refusal (M4)
            raise
        if head.metadata != b"true":
            _check_metadata(head.metadata, optional=(method, version) == _FIRST_POST)
        if path != EVENTS:
            text_only = query.get("format", "").lower() == "text"
            return ParsedRequest(method, path, version, close, segments=segments, text=text_only)
        wait = _wait(query["wait"]) if "wait" in query else 0
        tags = head.if_none_match
        if wait or tags is not None or method != b"GET":
            incarnations = frozenset[str]() if tags is None else _incarnations(tags)
            return ParsedRequest(method, path, version, close, incarnations=incarnations, wait=wait)
        key = version + " close" if close else version
        if key not in self._polls:
            self._polls[key] = ParsedRequest(method, path, version, close, key=key)
        return self._polls[key]

    def _check_host(self, host: bytes | None, http: str) -> None:
        """Accept only configured names: a web page must not reach us by DNS rebinding."""
        if host is None:
            if http == "1.0":
                return
            raise _bad("host", "the Host header is missing")
        match = _HOST.fullmatch(host.decode("latin-1").lower())
        name = match["name"] if match else ""
        if name not in self._settings.hosts and not _ADDRESS.fullmatch(name):
            allowed = ", ".join(sorted(self._settings.hosts))
            raise _bad("host", f"Host must be an address or one of: {allowed}")

    def _version(self, path: str, query: dict[str, str]) -> str:
        """Return the api-version, which is mandatory except for /metadata/versions (M2, M3)."""
        if path == API_VERSIONS:
            return ""
        version = query.get("api-version", "")
        if path == EVENTS and version in VERSIONS and version != PREVIEW:
            return version
        if not _DATE.fullmatch(version):
            text = "Bad request. api-version is invalid or was not specified in the request."
            raise RequestRefused(Refusal(400, "api-version", text, newest=instance.NEWEST))
        if path == INSTANCE:
            if version not in instance.VERSIONS:
                text = f"Bad request. api-version {version} is unknown."
                raise RequestRefused(Refusal(400, "api-version", text, newest=instance.NEWEST))
        elif version != PREVIEW or not self._settings.preview:
            supported = ", ".join(name for name in VERSIONS if name != PREVIEW)
            text = f"Not found. api-version {version} is unknown; use one of {supported}."
            raise RequestRefused(Refusal(404, "api-version", text))
        return version


def _bad(reason: str, error: str) -> RequestRefused:
    return RequestRefused(Refusal(400, reason, f"Bad request. {error}"))


_NO_TARGET = Refusal(
    400, "target", "Bad request. the target must be a path, such as /metadata/scheduledevents"
)
_FIRST_POST = (b"POST", "2017-03-01")  # the only request without a Metadata header (M4)
_FORM_TYPES = frozenset({b"text/plain", b"multipart/form-data"})  # which pages send anywhere


def _single_headers(headers: Sequence[Header]) -> tuple[dict[bytes, bytes], int]:
    """Return the relevant headers, each allowed once, and the size of all headers.

    Headers that a proxy adds are refused (M5).
    """
    values: dict[bytes, bytes] = {}
    size = 0
    for raw_name, value in headers:
        name = raw_name.lower()
        size += len(name) + len(value) + 4
        if name in _ONCE:
            if name in values:
                raise _bad("repeated-header", f"{name.decode()} occurs more than once")
            values[name] = value
        elif name not in _UNCHECKED:
            hyphenated = name.replace(b"_", b"-")
            if hyphenated in _FORWARDING or b"forwarded" in hyphenated:
                text = f"{hyphenated.decode('latin-1')} is not allowed: send the request directly"
                raise _bad("forwarded", text)
    return values, size


def _split(target: bytes) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """Return path, segments below it, and query. The path is not decoded; case is ignored."""
    raw, _, query = target.decode("latin-1").partition("?")
    if "#" in query:
        raise RequestRefused(_NO_TARGET)
    if raw in _METHODS:
        return raw, (), _parameters(query)
    if not raw.startswith("/") or "#" in raw:
        raise RequestRefused(_NO_TARGET)
    trimmed = raw.removesuffix("/")
    path = trimmed.lower()
    for known_path in _METHODS:
        if path == known_path:
            return known_path, (), _parameters(query)
    if path.startswith(INSTANCE + "/"):
        return INSTANCE, tuple(trimmed.split("/")[3:]), _parameters(query)
    raise RequestRefused(Refusal(404, "path", f"Not found. Use one of {', '.join(_METHODS)}."))


def _check_method(path: str, method: bytes) -> None:
    if method not in _METHODS[path]:
        allowed = [known_method.decode() for known_method in _METHODS[path]]
        text = f"{method.decode('latin-1')} is not allowed here; use {' or '.join(allowed)}"
        headers = f"Allow: {', '.join(allowed)}\r\n"
        raise RequestRefused(Refusal(405, "method", text, headers))


def _parameters(query: str) -> dict[str, str]:
    """Return the query parameters by lower-case name, each allowed once (M3)."""
    parameters: dict[str, str] = {}
    encoded = "%" in query or "+" in query
    for part in query.split("&"):
        if not part:
            continue
        name, _, value = part.partition("=")
        if encoded:
            name, value = unquote_plus(name), unquote_plus(value)
        name = name.lower()
        if name in parameters:
            raise _bad("repeated-parameter", f"query parameter {name[:40]!r} occurs twice")
        parameters[name] = value
    return parameters


def _check_metadata(value: bytes | None, *, optional: bool) -> None:
    """Require `Metadata: true` (M4), which browsers and simple proxies do not send."""
    if value is None and optional:
        return
    if value is None:
        raise _bad("metadata-header", "Required metadata header not specified: add Metadata: true")
    if value.strip().lower() != b"true":
        raise _bad("metadata-header", "the Metadata header must be true")


def check_no_browser(headers: Sequence[Header]) -> None:
    """Refuse a POST without a Metadata header that a web page may have sent (M4).

    The only other protection is that event ids cannot be guessed. The type of a form stays
    allowed, because curl sends it (M12).
    """
    for raw_name, value in headers:
        name = raw_name.lower()
        form = name == b"content-type" and value.partition(b";")[0].strip().lower() in _FORM_TYPES
        if form or name == b"origin" or name.startswith(b"sec-fetch-"):
            text = f"{name.decode('latin-1')} is sent by web pages, which may not approve events"
            raise _bad("browser", f"{text}; a program adds Metadata: true")


def _wait(text: str) -> int:
    """Return how many seconds a request may be held (M18)."""
    if re.fullmatch("[0-9]{1,4}", text) and int(text) <= limits.WAIT_MAX_SECONDS:
        return int(text)
    raise _bad("wait", f"wait must be 0 to {limits.WAIT_MAX_SECONDS} seconds")


def _incarnations(if_none_match: bytes) -> frozenset[str]:
    """Parse If-None-Match in the forms that clients send: `"3"`, `3`, `W/"3"`, a list, or `*`."""
    tags = if_none_match.decode("latin-1")
    if tags.strip() == "*":
        return frozenset({"*"})
    matches = (_TAG.fullmatch(tag.strip()) for tag in tags.split(","))
    return frozenset(match[1].lstrip("0") or "0" for match in matches if match)
