"""The gate: a request that is not exactly as it must be goes no further (IS1).

No parser is strict enough alone, so everything that matters is checked here, on the raw bytes:
nothing is decoded, normalised or guessed. Whoever asks is not the gate's business: that is named by
the connection and never by the request (M22).
"""

import re
from collections.abc import Iterable
from urllib.parse import unquote_plus

from fairwarning.core import limits
from fairwarning.core.document import VERSIONS
from fairwarning.core.record import record
from fairwarning.metadata import instance
from fairwarning.metadata.answers import Refusal
from fairwarning.service.settings import Settings

Headers = Iterable[tuple[bytes, bytes]]

PREVIEW = "2024-07-09"

EVENTS = "/metadata/scheduledevents"
INSTANCE = "/metadata/instance"
API_VERSIONS = "/metadata/versions"
_METHODS = {EVENTS: ("GET", "POST"), INSTANCE: ("GET",), API_VERSIONS: ("GET",)}

# A proxy that forwards for others must not be taken for the machine it runs on (M5).
_FORWARDING = frozenset(
    {b"x-real-ip", b"via", b"x-client-ip", b"true-client-ip", b"x-cluster-client-ip"}
)
_ONCE = frozenset({b"host", b"metadata", b"content-length", b"if-none-match", b"expect"})
_HOST = re.compile(r"(?P<name>[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_ADDRESS = re.compile(r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}|\[[0-9a-f:.]+\]", re.ASCII)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_TAG = re.compile(r'(?:W/)?"?([0-9]+)"?')


@record
class Ask:
    """What a request wants. It holds nothing of who wants it, so it can be remembered."""

    method: str
    path: str
    version: str = ""
    segments: tuple[str, ...] = ()  # below /metadata/instance
    text: bool = False
    known: frozenset[str] = frozenset()  # incarnations of If-None-Match (M11)
    wait: int = 0
    close: bool = False
    key: str = ""  # of the rendered answer, for a plain poll


class Gate:
    """Decides whether a request is one, and what it asks for."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def check(self, method: str, target: bytes, http: str, headers: Headers, *, keep: bool) -> Ask:
        """What the request asks for; raises a `Refusal` that says what is wrong with it."""
        found = _singles(headers)
        if http not in {"1.1", "1.0"}:
            raise _bad("http-version", f"HTTP {http} is not spoken here; use HTTP/1.1")
        self._check_host(found.get(b"host"), http)
        path, segments, query = _split(target)
        allowed = _METHODS[path]
        if method not in allowed:
            text = f"{method} is not allowed here; use {' or '.join(allowed)}"
            raise Refusal(405, "method", text, f"Allow: {', '.join(allowed)}\r\n")
        version = self._version(path, query)
        _check_metadata(found.get(b"metadata"), optional=(method, version) == _FIRST_POST)
        close = http == "1.0" or not keep
        tags = found.get(b"if-none-match") if path is EVENTS else None
        return Ask(
            method=method,
            path=path,
            version=version,
            segments=segments,
            text=query.get("format", "").lower() == "text",
            known=frozenset() if tags is None else _incarnations(tags.decode("latin-1")),
            wait=_wait(query) if path is EVENTS else 0,
            close=close,
            key=version + " close" * close if path is EVENTS and tags is None else "",
        )

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
        if path is API_VERSIONS:
            return ""
        version = query.get("api-version", "")
        if not _DATE.fullmatch(version):
            raise Refusal(
                400,
                "api-version",
                "Bad request. api-version is invalid or was not specified in the request.",
                newest=instance.NEWEST,
            )
        if path is INSTANCE:
            if version not in instance.VERSIONS:
                text = f"Bad request. api-version {version} is not known."
                raise Refusal(400, "api-version", text, newest=instance.NEWEST)
        elif version not in VERSIONS or (version == PREVIEW and not self._settings.preview):
            known = ", ".join(one for one in VERSIONS if one != PREVIEW)
            text = f"Not found. There is no api-version {version}; there are {known}."
            raise Refusal(404, "api-version", text)
        return version


_FIRST_POST = ("POST", "2017-03-01")  # the one request of old that needs no Metadata header (M4)


def _bad(reason: str, error: str) -> Refusal:
    return Refusal(400, reason, f"Bad request. {error}")


def _singles(headers: Headers) -> dict[bytes, bytes]:
    """The headers that count, each given once at most, and none that a proxy would add (M5)."""
    found: dict[bytes, bytes] = {}
    for sent, value in headers:
        name = sent.lower()
        if name in _ONCE:
            if name in found:
                raise _bad("repeated-header", f"{name.decode()} was given more than once")
            found[name] = value
        else:
            name = name.replace(b"_", b"-")
            if name in _FORWARDING or b"forwarded" in name:
                text = f"{name.decode('latin-1')} is not allowed: ask from the machine itself"
                raise _bad("forwarded", text)
    return found


def _split(target: bytes) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """Path, what is below it, and query. The path is compared as it was sent, but for case."""
    raw, _, query = target.decode("latin-1").partition("?")
    if not raw.startswith("/") or "#" in query or "#" in raw:
        raise _bad("target", "name a path, such as /metadata/scheduledevents")
    whole = raw.removesuffix("/")
    path = whole.lower()
    if path == EVENTS:
        return EVENTS, (), _parameters(query)
    if path == INSTANCE or path.startswith(INSTANCE + "/"):
        segments = tuple(whole.split("/")[3:])
        return INSTANCE, segments, _parameters(query)
    if path == API_VERSIONS:
        return API_VERSIONS, (), _parameters(query)
    raise Refusal(404, "path", f"Not found. There are {EVENTS}, {INSTANCE} and {API_VERSIONS}.")


def _parameters(query: str) -> dict[str, str]:
    """Names without case, each once (M3)."""
    found: dict[str, str] = {}
    for part in filter(None, query.split("&")):
        name, _, value = part.partition("=")
        name = unquote_plus(name).lower()
        if name in found:
            raise _bad("repeated-parameter", f"query parameter {name[:40]!r} was given twice")
        found[name] = unquote_plus(value)
    return found


def _check_metadata(value: bytes | None, *, optional: bool) -> None:
    """`Metadata: true`, once (M4): what a browser or a naive proxy would not send."""
    if value is None and optional:
        return
    if value is None:
        raise _bad("metadata-header", "Required metadata header not specified: add Metadata: true")
    if value.strip().lower() != b"true":
        raise _bad("metadata-header", "the Metadata header must be true")


def _wait(query: dict[str, str]) -> int:
    """How long a request may be held (M18)."""
    wait = query.get("wait", "0")
    if re.fullmatch("[0-9]{1,4}", wait) and int(wait) <= limits.WAIT_MAX_SECONDS:
        return int(wait)
    raise _bad("wait", f"wait must be 0 to {limits.WAIT_MAX_SECONDS} seconds")


def _incarnations(tags: str) -> frozenset[str]:
    """If-None-Match as clients send it: `"3"`, `3`, `W/"3"`, several, or `*`."""
    if tags.strip() == "*":
        return frozenset({"*"})
    found = (_TAG.fullmatch(tag.strip()) for tag in tags.split(","))
    return frozenset(match[1].lstrip("0") or "0" for match in found if match)
