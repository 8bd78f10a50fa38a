"""The gate: a request that is not exactly as it must be goes no further (IS1).

No parser is strict enough alone, so everything that matters is checked here, on the raw bytes:
nothing is decoded, normalised or guessed. Whoever asks is not the gate's business: that is named by
the connection and never by the request (M22).
"""

import re
from collections.abc import Sequence
from urllib.parse import unquote_plus

from fairwarning.core import limits
from fairwarning.core.document import VERSIONS
from fairwarning.core.record import short_record
from fairwarning.metadata import instance
from fairwarning.metadata.answers import RequestRefused
from fairwarning.service.config.settings import MetadataSettings

Header = tuple[bytes, bytes]

PREVIEW = "2024-07-09"

EVENTS = "/metadata/scheduledevents"
INSTANCE = "/metadata/instance"
API_VERSIONS = "/metadata/versions"
_SPOKEN = frozenset({"1.1", "1.0"})
_KNOWN_BLOCKS = 1024
_GET = re.compile(rb"GET (/[!-~]*) HTTP/1\.1")
_METHODS = {EVENTS: (b"GET", b"POST"), INSTANCE: (b"GET",), API_VERSIONS: (b"GET",)}

# A proxy that forwards for others must not be taken for the machine it runs on (M5).
_FORWARDING = frozenset(
    {b"x-real-ip", b"via", b"x-client-ip", b"true-client-ip", b"x-cluster-client-ip"}
)
# Nothing to look at twice: what ordinary clients send.
_USUAL = frozenset({b"user-agent", b"accept", b"accept-encoding", b"connection", b"content-type"})
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
    """What a request wants. It holds nothing of who wants it, so it can be remembered."""

    method: bytes
    path: str
    version: str
    close: bool
    segments: tuple[str, ...] = ()  # below /metadata/instance
    text: bool = False
    known: frozenset[str] = frozenset()  # incarnations of If-None-Match (M11)
    wait: int = 0
    key: str = ""  # of the rendered answer, for a plain poll


@short_record
class ParsedHeaders:
    """What the headers of a request say."""

    metadata: bytes | None
    tags: bytes | None  # of If-None-Match
    size: int
    framing: dict[bytes, bytes]  # what says how long the body is


class RequestValidator:
    """Decides whether a request is one, and what it asks for."""

    def __init__(self, settings: MetadataSettings) -> None:
        self._settings = settings
        self._blocks: dict[bytes, tuple[ParsedHeaders, bool]] = {}
        """Headers that were read and found to be in order, byte for byte, and whether they close.
        What comes after the first line of a GET is read alike whatever that line asks for."""
        self._polls: dict[str, ParsedRequest] = {}  # plain ones, by their keys

    def learn(self, data: bytes, head: ParsedHeaders, *, close: bool) -> None:
        """These bytes are one whole GET without a body: its headers need not be read again."""
        line, _, block = data.partition(b"\r\n")
        if _GET.fullmatch(line):
            if len(self._blocks) >= _KNOWN_BLOCKS:
                self._blocks.clear()
            self._blocks[block] = (head, close)

    def recognise(self, data: bytes) -> ParsedRequest | None:
        """What a GET asks for whose headers are known; None if it has to be read."""
        line, _, block = data.partition(b"\r\n")
        known = self._blocks.get(block)
        found = _GET.fullmatch(line) if known else None
        if known is None or found is None:
            return None
        return self.check(b"GET", found[1], known[0], close=known[1])

    def check_head(self, headers: Sequence[Header], http: str) -> ParsedHeaders:
        """What the headers say; raises a `RequestRefused` if they may not be sent."""
        found, size = _singles(headers)
        if http not in _SPOKEN:
            raise _bad("http-version", f"HTTP {http} is not spoken here; use HTTP/1.1")
        self._check_host(found.pop(b"host", None), http)
        metadata, tags = found.pop(b"metadata", None), found.pop(b"if-none-match", None)
        return ParsedHeaders(metadata, tags, size, found)

    def check(
        self, method: bytes, target: bytes, head: ParsedHeaders, *, close: bool
    ) -> ParsedRequest:
        """What the request asks for; raises a `RequestRefused` that says what is wrong with it."""
        path, segments, query = _split(target)
        if method not in _METHODS[path]:
            allowed = [one.decode() for one in _METHODS[path]]
            text = f"{method.decode('latin-1')} is not allowed here; use {' or '.join(allowed)}"
            raise RequestRefused(405, "method", text, f"Allow: {', '.join(allowed)}\r\n")
        version = self._version(path, query)
        if head.metadata != b"true":
            _check_metadata(head.metadata, optional=(method, version) == _FIRST_POST)
        if path != EVENTS:
            text_only = query.get("format", "").lower() == "text"
            return ParsedRequest(method, path, version, close, segments=segments, text=text_only)
        wait = _wait(query["wait"]) if "wait" in query else 0
        if wait or head.tags is not None or method != b"GET":
            known = frozenset[str]() if head.tags is None else _incarnations(head.tags)
            return ParsedRequest(method, path, version, close, known=known, wait=wait)
        key = version + " close" if close else version
        if key not in self._polls:
            self._polls[key] = ParsedRequest(method, path, version, close, key=key)
        return self._polls[key]

    def _check_host(self, host: bytes | None, http: str) -> None:
        """One name we answer to: a page in a browser must not reach us by a name of its own."""
        if host is None:
            if http == "1.0":
                return
            raise _bad("host", "a request needs a Host header")
        found = _HOST.fullmatch(host.decode("latin-1").lower())
        name = found["name"] if found else ""
        if name not in self._settings.hosts and not _ADDRESS.fullmatch(name):
            allowed = ", ".join(sorted(self._settings.hosts))
            raise _bad("host", f"Host must be an address or one of: {allowed}")

    def _version(self, path: str, query: dict[str, str]) -> str:
        """The api-version, mandatory wherever there are several (M2, M3)."""
        if path == API_VERSIONS:
            return ""
        version = query.get("api-version", "")
        if path == EVENTS and version in VERSIONS and version != PREVIEW:
            return version
        if not _DATE.fullmatch(version):
            raise RequestRefused(
                400,
                "api-version",
                "Bad request. api-version is invalid or was not specified in the request.",
                newest=instance.NEWEST,
            )
        if path == INSTANCE:
            if version not in instance.VERSIONS:
                text = f"Bad request. api-version {version} is not known."
                raise RequestRefused(400, "api-version", text, newest=instance.NEWEST)
        elif version != PREVIEW or not self._settings.preview:
            known = ", ".join(one for one in VERSIONS if one != PREVIEW)
            text = f"Not found. There is no api-version {version}; there are {known}."
            raise RequestRefused(404, "api-version", text)
        return version


def _bad(reason: str, error: str) -> RequestRefused:
    return RequestRefused(400, reason, f"Bad request. {error}")


_NO_TARGET = _bad("target", "name a path, such as /metadata/scheduledevents")
_FIRST_POST = (b"POST", "2017-03-01")  # the one request of old that needs no Metadata header (M4)


def _singles(headers: Sequence[Header]) -> tuple[dict[bytes, bytes], int]:
    """The headers that count, each given once at most; and the size of all.

    None may be there that a proxy would add (M5).
    """
    found: dict[bytes, bytes] = {}
    size = 0
    for sent, value in headers:
        name = sent.lower()
        size += len(name) + len(value) + 4
        if name in _ONCE:
            if name in found:
                raise _bad("repeated-header", f"{name.decode()} was given more than once")
            found[name] = value
        elif name not in _USUAL:
            spelt = name.replace(b"_", b"-")
            if spelt in _FORWARDING or b"forwarded" in spelt:
                text = f"{spelt.decode('latin-1')} is not allowed: ask from the machine itself"
                raise _bad("forwarded", text)
    return found, size


def _split(target: bytes) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """Path, what is below it, and query. The path is compared as it was sent, but for case."""
    raw, _, query = target.decode("latin-1").partition("?")
    if "#" in query:
        raise _NO_TARGET
    if raw in _METHODS:
        return raw, (), _parameters(query)
    if not raw.startswith("/") or "#" in raw:
        raise _NO_TARGET
    whole = raw.removesuffix("/")
    path = whole.lower()
    for known in _METHODS:
        if path == known:
            return known, (), _parameters(query)
    if path.startswith(INSTANCE + "/"):
        return INSTANCE, tuple(whole.split("/")[3:]), _parameters(query)
    raise RequestRefused(404, "path", f"Not found. There are {', '.join(_METHODS)}.")


def _parameters(query: str) -> dict[str, str]:
    """Names without case, each once (M3)."""
    found: dict[str, str] = {}
    encoded = "%" in query or "+" in query
    for part in query.split("&"):
        if not part:
            continue
        name, _, value = part.partition("=")
        if encoded:
            name, value = unquote_plus(name), unquote_plus(value)
        name = name.lower()
        if name in found:
            raise _bad("repeated-parameter", f"query parameter {name[:40]!r} was given twice")
        found[name] = value
    return found


def _check_metadata(value: bytes | None, *, optional: bool) -> None:
    """`Metadata: true`, once (M4): what a browser or a naive proxy would not send."""
    if value is None and optional:
        return
    if value is None:
        raise _bad("metadata-header", "Required metadata header not specified: add Metadata: true")
    if value.strip().lower() != b"true":
        raise _bad("metadata-header", "the Metadata header must be true")


def _wait(text: str) -> int:
    """How long a request may be held (M18)."""
    if re.fullmatch("[0-9]{1,4}", text) and int(text) <= limits.WAIT_MAX_SECONDS:
        return int(text)
    raise _bad("wait", f"wait must be 0 to {limits.WAIT_MAX_SECONDS} seconds")


def _incarnations(sent: bytes) -> frozenset[str]:
    """If-None-Match as clients send it: `"3"`, `3`, `W/"3"`, several, or `*`."""
    tags = sent.decode("latin-1")
    if tags.strip() == "*":
        return frozenset({"*"})
    found = (_TAG.fullmatch(tag.strip()) for tag in tags.split(","))
    return frozenset(match[1].lstrip("0") or "0" for match in found if match)
