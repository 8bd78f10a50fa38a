"""Probes of message framing: lengths, chunks, and smuggled requests."""

from tests.hostile.probes import Probe, after_poll, malformed, refused, served, too_large
from tests.hostile.wire import (
    APPROVE,
    EVENT,
    GOOD,
    METADATA,
    POLL,
    TARGET,
    approval,
    get,
    head,
    post,
)

BODY = approval(EVENT)
_SIZE = f"Content-Length: {len(BODY)}"
_CHUNKED = "Transfer-Encoding: chunked"


def chunk(data: bytes, extension: bytes = b"") -> bytes:
    """Return one chunk."""
    return b"%x%s\r\n%s\r\n" % (len(data), extension, data)


END = b"0\r\n\r\n"
_WHOLE = chunk(BODY) + END


def _post(*lines: str) -> bytes:
    return head("POST", TARGET, *GOOD, *lines)


def _sized(text: str) -> bytes:
    return _post(f"Content-Length: {text}") + BODY


_NO_SIZE = ("-5", "+5", "0x40", "5 5", "5,5", "5;5", "five", "5.0", "1e1", "", "\xb2", "9" * 30)

LENGTHS = [
    *(malformed(f"length-{text[:8]!a}", _sized(text)) for text in _NO_SIZE),
    malformed("length-twice-same", _post(_SIZE, _SIZE) + BODY),
    malformed("length-twice-different", _post(_SIZE, "Content-Length: 0") + BODY),
    malformed("length-and-chunked", _post(_SIZE, _CHUNKED) + _WHOLE),
    malformed("chunked-and-length", _post(_CHUNKED, _SIZE) + _WHOLE),
    malformed("length-zero-and-chunked", _post("Content-Length: 0", _CHUNKED) + _WHOLE),
    malformed("length-space-before-colon", _post(f"Content-Length : {len(BODY)}") + BODY),
    too_large("length-over-limit", _sized("65537")),
    too_large("length-huge", _sized(str(2**62))),
    too_large("length-of-a-poll-huge", get("Content-Length: 1000000")),
    refused("length-missing", 400, "approval", _post()),
    served("length-leading-zeros", _sized(f"000{len(BODY)}"), approves=True),
    served("length-of-a-poll", get("Content-Length: 5") + b"hello"),
]

_CODINGS = (
    "gzip", "identity", "chunked, gzip", "chunked, identity", "xchunked", "chunkedx", "chunked;q=1",
    "", '"chunked"', "chun ked",
)  # fmt: skip

CODINGS = [
    *(
        malformed(f"coding-{text!a}", _post(f"Transfer-Encoding: {text}") + _WHOLE)
        for text in _CODINGS
    ),
    malformed("coding-vertical-tab", _post("Transfer-Encoding: \x0bchunked") + _WHOLE),
    malformed("coding-gzip-chunked", _post("Transfer-Encoding: gzip, chunked") + _WHOLE),
    malformed("coding-twice", _post(_CHUNKED, _CHUNKED) + _WHOLE),
    malformed(
        "coding-chunked-then-identity", _post(_CHUNKED, "Transfer-Encoding: identity") + _WHOLE
    ),
    malformed("coding-space-before-colon", _post("Transfer-Encoding : chunked") + _WHOLE),
    malformed("coding-http10", head("POST", TARGET, *GOOD, _CHUNKED, version="HTTP/1.0") + _WHOLE),
    served("coding-chunked", _post(_CHUNKED) + _WHOLE, approves=True),
    served("coding-upper-case", _post("TRANSFER-ENCODING: CHUNKED") + _WHOLE, approves=True),
]

_SIZES = ("zz", "-1", "+5", "0x5", " 5", "5 ", "", ";", "f" * 17, "1" + "0" * 40, "\u0665", "5_0")


def _chunks(name: str, data: bytes) -> Probe:
    return malformed(f"chunk-{name}", _post(_CHUNKED) + data)


def _trailer(name: str, chunks: bytes) -> Probe:
    return refused(name, 400, "trailer", _post(_CHUNKED) + chunks, closed=True)


_CRUMBS = b"".join(chunk(BODY[n : n + 1]) for n in range(20)) + chunk(BODY[20:])

CHUNKS = [
    *(
        _chunks(f"size-{text[:18]!a}", text.encode() + b"\r\n" + BODY + b"\r\n" + END)
        for text in _SIZES
    ),
    _chunks("lf-in-extension", chunk(BODY, b";a=\n") + END),
    _chunks("lf-hides-request-in-extension", chunk(BODY, b";a\n" + POLL) + END),
    _chunks("cr-in-extension", chunk(BODY, b";a=\rb") + END),
    _chunks("nul-in-extension", chunk(BODY, b";a=\0") + END),
    _chunks("bare-lf", b"%x\n%s\n0\n\n" % (len(BODY), BODY)),
    _chunks("too-short", b"1\r\n" + BODY + b"\r\n" + END),
    _chunks("no-line-end", b"%x\r\n%s" % (len(BODY), BODY) + END),
    too_large("chunk-over-limit", _post(_CHUNKED) + chunk(b" " * 65_537) + END),
    too_large("chunk-many-over-limit", _post(_CHUNKED) + chunk(b" " * 4096) * 17 + END),
    too_large("chunk-huge", _post(_CHUNKED) + b"f" * 16 + b"\r\n" + b" " * 70_000),
    too_large("chunk-long-extensions", _post(_CHUNKED), chunk(b" ", b";" + b"a" * 80_000) * 2),
    _trailer("chunk-trailer", chunk(BODY) + b"0\r\nX-One: 1\r\n\r\n"),
    _trailer("chunk-trailer-forwarded", chunk(BODY) + b"0\r\nX-Forwarded-For: 1\r\n\r\n"),
    served("chunk-extension", _post(_CHUNKED) + chunk(BODY, b";a=b") + END, approves=True),
    served("chunk-of-single-bytes", _post(_CHUNKED) + _CRUMBS + END, approves=True),
]

_BROKEN = b"{" + APPROVE

SMUGGLED = [
    refused("smuggled-in-a-body", 400, "approval", post(_BROKEN)),
    refused(
        "smuggled-in-a-refused-body",
        400,
        "host",
        head("POST", TARGET, METADATA, f"Content-Length: {len(APPROVE)}") + APPROVE,
        closed=True,
    ),
    refused("smuggled-in-a-wrong-path", 404, "path", post(APPROVE, target="/admin"), closed=True),
    refused(
        "smuggled-in-a-wrong-verb",
        405,
        "method",
        head("PUT", TARGET, *GOOD, f"Content-Length: {len(APPROVE)}") + APPROVE,
        closed=True,
    ),
    served("smuggled-in-a-poll", get(f"Content-Length: {len(APPROVE)}") + APPROVE),
    refused("smuggled-in-chunks", 400, "approval", _post(_CHUNKED) + chunk(_BROKEN) + END),
    malformed(
        "smuggled-behind-te-cl", _post("Content-Length: 4", _CHUNKED) + b"0\r\n\r\n" + APPROVE
    ),
    malformed(
        "smuggled-behind-cl-te",
        _post(f"Content-Length: {len(END + APPROVE)}", _CHUNKED) + END + APPROVE,
    ),
    too_large("smuggled-behind-413", _post("Content-Length: 65537") + APPROVE),
    Probe("smuggled-behind-close", (get("Connection: close") + APPROVE,), (200,)),
    served(
        "smuggled-behind-http10",
        head("GET", TARGET, *GOOD, version="HTTP/1.0") + APPROVE,
        closed=True,
    ),
    _trailer("smuggled-behind-trailer", b"0\r\nX: 1\r\n\r\n" + APPROVE),
]

_BAD = b"GET / HTTP/9.9\r\n\r\n"

TOGETHER = [
    Probe("together-three-polls", (POLL * 3,), (200, 200, 200), closed=False),
    Probe("together-good-bad-good", (POLL + _BAD + POLL,), (200, 400), reason="malformed"),
    Probe(
        "together-good-refused-good",
        (POLL + get(target="/") + POLL,),
        (200, 404, 200),
        closed=False,
        reason="path",
    ),
    Probe("together-good-bad-approval", (POLL + _BAD + APPROVE,), (200, 400), reason="malformed"),
    after_poll(LENGTHS[0]),
    after_poll(CODINGS[0]),
    after_poll(CHUNKS[0]),
]

FRAMES = [*LENGTHS, *CODINGS, *CHUNKS, *SMUGGLED, *TOGETHER]
