"""Probes of the request line: methods, targets, versions, and bytes that are not HTTP."""

from tests.fixtures.endpoint import EVENTS
from tests.hostile.probes import VALUES, Probe, malformed, refused, served
from tests.hostile.wire import (
    APPROVE,
    EVENT,
    GOOD,
    HOST,
    METADATA,
    POLL,
    TARGET,
    approval,
    get,
    head,
    post,
)

_QUERY = TARGET.partition("?")[2]


def _wrong_target(name: str, data: bytes) -> Probe:
    return refused(name, 400, "target", data)


def _wrong_method(name: str, data: bytes, *, closed: bool = False) -> Probe:
    return refused(name, 405, "method", data, closed=closed)


def _no_version(name: str, data: bytes) -> Probe:
    return refused(name, 400, "http-version", data, closed=True)


TARGETS = [
    *(
        refused(f"target-{name}", 404, "path", get(target=f"{path}?{_QUERY}"))
        for name, path in VALUES["paths"].items()
    ),
    refused(
        "target-instance-dots",
        404,
        "UnknownPath",
        get(target="/metadata/instance/../scheduledevents?api-version=2021-02-01"),
    ),
    _wrong_target("target-star", get(target="*")),
    _wrong_target("target-absolute-own", get(target=f"http://169.254.169.254{TARGET}")),
    _wrong_target("target-absolute-other", get(target=f"http://evil.example{TARGET}")),
    _wrong_target("target-absolute-https", get(target=f"https://localhost{TARGET}")),
    malformed("target-authority", get(target="169.254.169.254:80")),
    malformed("target-relative", get(target=TARGET.removeprefix("/"))),
    malformed("target-query-only", get(target=f"?{_QUERY}")),
    _wrong_target("target-fragment", get(target=f"{TARGET}#here")),
    _wrong_target("target-fragment-after-parameter", get(target=f"{TARGET}&x=1#here")),
    _wrong_target("target-fragment-for-path", get(target=f"{EVENTS}#?{_QUERY}")),
    malformed("target-non-ascii", get(target=f"/metadata/sch\xe9duledevents?{_QUERY}")),
    malformed("target-non-ascii-query", get(target=f"{TARGET}&x=\xe9")),
    malformed("target-nul", get(target=f"/metadata/scheduledevents\0?{_QUERY}")),
    malformed("target-control", get(target=f"{TARGET}&x=\x01")),
    malformed("target-tab", get(target=f"{TARGET}&x=\t")),
    malformed("target-empty", b"GET  HTTP/1.1\r\nHost: localhost\r\nMetadata: true\r\n\r\n"),
    served("target-unknown-parameter", get(target=f"{TARGET}&machine=db_0&resource=../..")),
]

_KNOWN_VERBS = ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "PROPFIND")
_NO_VERBS = ("get", "Get", "GETS", "FOO", "G\xcbT", "GE\0T", "", "\tGET", "GET\0", "1", "GET/")

VERBS = [
    *(_wrong_method(f"verb-{verb}", head(verb, TARGET, *GOOD)) for verb in _KNOWN_VERBS),
    *(malformed(f"verb-{verb!a}", head(verb, TARGET, *GOOD)) for verb in _NO_VERBS),
    malformed("verb-connect", head("CONNECT", "evil.example:443", *GOOD)),
    malformed(
        "verb-connect-foreign", head("CONNECT", "evil.example:443", "Host: evil.example:443")
    ),
    malformed("verb-connect-path", head("CONNECT", TARGET, *GOOD)),
    _wrong_method(
        "verb-post-instance", post(b"", target="/metadata/instance?api-version=2021-02-01")
    ),
    _wrong_method(
        "verb-put-with-body", head("PUT", TARGET, *GOOD, "Content-Length: 2") + b"{}", closed=True
    ),
    _wrong_method("verb-override", head("PUT", TARGET, *GOOD, "X-HTTP-Method-Override: GET")),
]


def _line(name: str, line: str) -> Probe:
    return malformed(f"line-{name}", f"{line}\r\n{HOST}\r\n{METADATA}\r\n\r\n".encode("latin-1"))


_NO_VERSIONS = (
    "HTTP/1.2", "HTTP/3.0", "HTTP/1", "HTTP/1.1.1", "HTTP/01.1", "HTTP/1.10", "http/1.1",
    "HTTPS/1.1", "HTTP /1.1", "ICE/1.0", "1.1", "HTTP/1,1",
)  # fmt: skip
VERSIONS = [
    *(_line(f"version-{version!a}", f"GET {TARGET} {version}") for version in _NO_VERSIONS),
    _no_version("line-version-2.0", head("GET", TARGET, *GOOD, version="HTTP/2.0")),
    _no_version("line-version-0.9", head("GET", TARGET, *GOOD, version="HTTP/0.9")),
    _no_version("line-version-less", f"GET {TARGET}\r\n\r\n".encode()),
    _no_version(
        "line-version-less-with-headers", f"GET {TARGET}\r\n{HOST}\r\n{METADATA}\r\n\r\n".encode()
    ),
    _line("tabs", f"GET\t{TARGET}\tHTTP/1.1"),
    _line("tab-before-version", f"GET {TARGET}\tHTTP/1.1"),
    _line("space-at-end", f"GET {TARGET} HTTP/1.1 "),
    _line("space-at-begin", f" GET {TARGET} HTTP/1.1"),
    _line("more-at-end", f"GET {TARGET} HTTP/1.1 HTTP/1.1"),
    _line("space-in-target", f"GET {TARGET}&x=a b HTTP/1.1"),
    _line("bare-cr", f"GET {TARGET} HTTP/1.1\rX-One: 1"),
    served("line-empty-lines-before", b"\r\n\r\n" + POLL),
]

# Deviations that the parser accepts (RFC 9112 section 3 allows it); none can smuggle a request.
FORGIVEN = [
    served("forgiven-two-spaces", POLL.replace(b"GET ", b"GET  ")),
    served("forgiven-two-spaces-before-version", POLL.replace(b" HTTP", b"  HTTP")),
    served("forgiven-rtsp", POLL.replace(b"HTTP/1.1", b"RTSP/1.0"), closed=True),
]

# Java's client offers h2c by default: the offer is ignored, not refused.
_H2C = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk")
_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(range(189))

STRANGERS = [
    malformed(
        "stranger-http2-preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"
    ),
    malformed("stranger-tls-hello", _HELLO),
    malformed("stranger-ssh", b"SSH-2.0-OpenSSH_9.6\r\n"),
    malformed("stranger-proxy-v1", b"PROXY TCP4 10.0.0.9 10.0.0.1 1 80\r\n" + POLL),
    malformed("stranger-proxy-v2", b"\r\n\r\n\0\r\nQUIT\n" + b"\x21\x11\0\x0c" + bytes(12) + POLL),
    malformed("stranger-response", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
    malformed("stranger-nul", b"\0" * 100),
    malformed("stranger-json", approval("x")),
    malformed("stranger-utf8-mark", b"\xef\xbb\xbf" + POLL),
    served(
        "stranger-websocket",
        get("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"),
    ),
    served("stranger-h2c", get(*_H2C)),
    Probe("stranger-h2c-then-poll", (get(*_H2C) + POLL,), (200, 200), closed=False),
    # A parser that stops at the offer leaves the body, which is then read as a request.
    served("stranger-h2c-approval", post(approval(EVENT), *_H2C), approves=True),
    served("stranger-h2c-smuggles", get(*_H2C, f"Content-Length: {len(APPROVE)}") + APPROVE),
    served("stranger-upgrade-alone", get("Upgrade: websocket")),
    served("stranger-expect", get("Expect: 200-ok")),
    refused(
        "stranger-expect-twice",
        400,
        "repeated-header",
        get("Expect: 100-continue", "Expect: 100-continue"),
    ),
]

LINES = [*TARGETS, *VERBS, *VERSIONS, *FORGIVEN, *STRANGERS]
