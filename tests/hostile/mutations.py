"""Random mutations of valid requests, reproducible by seed."""

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from fairwarning.core import limits
from tests.hostile.probes_frames import END, chunk
from tests.hostile.wire import GOOD, HOST, POLL, TARGET, approval, get, head, post

_TOKENS = (
    b"\r\n", b"\n", b"\r", b"\0", b"\t", b" ", b":", b",", b";", b'"', b"{", b"}", b"[", b"]",
    b"\\", b"%00", b"%2e%2e", b"\xff", b"\xc3\x28", b"\xef\xbb\xbf", b"\\ud800", b"\\u0000",
    b"true", b"null", b"-1", b"1e999", b"9" * 40, b"0x", b"GET ", b"POST ", b" HTTP/1.1\r\n",
    b"Host: x\r\n", b"Metadata: true\r\n", b"X-Forwarded-For: 1\r\n", b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n", b"Expect: 100-continue\r\n",
    b"Upgrade: h2c\r\n", b"Connection: Upgrade\r\n", b"0\r\n\r\n", b"\r\n\r\n", b"StartRequests",
    b"EventId", b"api-version=2017-03-01", b"&wait=9", b"*",
)  # fmt: skip

Change = Callable[[Random, bytes], bytes]


def _place(rng: Random, data: bytes) -> tuple[int, int]:
    start = rng.randrange(len(data) + 1)
    return start, min(len(data), start + rng.choice((1, 1, 2, 5, 20, 100)))


def _flip(rng: Random, data: bytes) -> bytes:
    start, end = _place(rng, data)
    return (
        data[:start]
        + bytes(byte ^ (1 << rng.randrange(8)) for byte in data[start:end])
        + data[end:]
    )


def _noise(rng: Random, data: bytes) -> bytes:
    start, end = _place(rng, data)
    return data[:start] + rng.randbytes(end - start) + data[end:]


def _drop(rng: Random, data: bytes) -> bytes:
    start, end = _place(rng, data)
    return data[:start] + data[end:]


def _double(rng: Random, data: bytes) -> bytes:
    start, end = _place(rng, data)
    return data[:end] + data[start:end] * rng.choice((1, 1, 2, 50)) + data[end:]


def _token(rng: Random, data: bytes) -> bytes:
    start, end = _place(rng, data)
    return data[:start] + rng.choice(_TOKENS) + data[rng.choice((start, end)) :]


def _cut(rng: Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _move_line(rng: Random, data: bytes) -> bytes:
    lines = data.split(b"\r\n")
    lines.insert(rng.randrange(len(lines) + 1), lines.pop(rng.randrange(len(lines))))
    return b"\r\n".join(lines)


def _repeat_line(rng: Random, data: bytes) -> bytes:
    lines = data.split(b"\r\n")
    lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
    return b"\r\n".join(lines)


_CHANGES: tuple[Change, ...] = (
    _flip, _noise, _drop, _double, _token, _token, _cut, _move_line, _repeat_line,
)  # fmt: skip


def mutated(rng: Random, data: bytes) -> bytes:
    """Return the data with one to four mutations."""
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        data = rng.choice(_CHANGES)(rng, data)
    return data


def request(rng: Random, events: Sequence[str]) -> bytes:
    """Return a complete request, or something similar."""
    body = approval(rng.choice(events))
    chunked = head("POST", TARGET, *GOOD, "Transfer-Encoding: chunked")
    good = rng.choice(
        (
            POLL,
            get(
                'If-None-Match: "1", W/"2"', "User-Agent: x/1.0", "Accept: */*", "Connection: close"
            ),
            get(target=f"{TARGET}&wait=3"),
            get(target="/metadata/instance/compute/name?api-version=2021-02-01&format=text"),
            head("GET", TARGET, "Metadata: true", version="HTTP/1.0"),
            post(body),
            post(body, "Content-Type: application/json", "Expect: 100-continue"),
            head("POST", TARGET.replace("2020-07-01", "2017-03-01"), HOST, "Content-Length: 2")
            + b"{}",
            chunked + chunk(body[:9]) + chunk(body[9:]) + END,
            POLL + post(body) + POLL,
        )
    )
    return mutated(rng, good)


# --- Bodies ---

_NUMBERS = ("0", "-0", "1e400", "-1e400", "1E-999", "0.1", "9" * 400, "-" + "9" * 20, "1.0e+308")
_TEXTS = ("", "EventId", "\0", "\ud800", "\u202e", "\N{SNOWMAN}", "x" * 300, "../..", "' or 1=1 --")


def value(rng: Random, events: Sequence[str], depth: int = 3) -> Any:  # noqa: ANN401  (anything)
    """Return any JSON value, with an EventId here and there."""
    kind = rng.randrange(9 if depth else 6)
    if kind == 0:
        return rng.choice((None, True, False))
    if kind == 1:
        return rng.choice((0, -1, 1.5, 10**30, rng.getrandbits(64), 2**63, -(2**63) - 1))
    if kind in {2, 3}:
        return rng.choice(_TEXTS)
    if kind in {4, 5}:
        return rng.choice(events)
    few = range(rng.choice((0, 1, 1, 2, 3)))
    if kind == 6:
        return [value(rng, events, depth - 1) for _ in few]
    names = ("EventId", "StartRequests", "DocumentIncarnation", "eventid", "x", "")
    return {rng.choice(names): value(rng, events, depth - 1) for _ in few}


def _shaped(rng: Random, events: Sequence[str]) -> bytes:
    """Return an approval that is valid except in one position."""
    starts: list[Any] = [{"EventId": rng.choice(events)} for _ in range(rng.choice((1, 1, 2, 5)))]
    if rng.random() < 0.5:
        wrong = value(rng, events)
        starts[rng.randrange(len(starts))] = rng.choice((wrong, {"EventId": wrong}))
    whole = {"StartRequests": rng.choice((starts, starts, starts, starts[0], {"0": starts}))}
    if rng.random() < 0.3:
        whole[rng.choice(("DocumentIncarnation", "Extra"))] = value(rng, events)
    return json.dumps(whole).encode()


def _nested(rng: Random, events: Sequence[str]) -> bytes:
    depth = rng.choice((10, 31, 32, 33, 500, 5_000))
    opened, closed = rng.choice(((b"[", b"]"), (b'{"a":', b"}"), (b'{"StartRequests":[', b"]}")))
    inside = opened * depth + b"1" + closed * rng.choice((depth, depth - 1, 0))
    return rng.choice((inside, approval(rng.choice(events))[:-1] + b',"x":' + inside + b"}"))


def _numbered(rng: Random, events: Sequence[str]) -> bytes:
    number = rng.choice(_NUMBERS).encode()
    whole = approval(rng.choice(events))
    return rng.choice((number, whole[:-1] + b',"DocumentIncarnation":' + number + b"}"))


def _doubled(rng: Random, events: Sequence[str]) -> bytes:
    first, second = (approval(rng.choice(events))[1:-1] for _ in range(2))
    return (
        b"{"
        + first
        + b","
        + rng.choice((second, b'"StartRequests":[]', b'"StartRequests":1'))
        + b"}"
    )


def _encoded(rng: Random, events: Sequence[str]) -> bytes:
    text = approval(rng.choice(events))
    encoding = rng.choice(("utf-8-sig", "utf-16", "utf-32-le"))
    return rng.choice(
        (
            text.decode().encode(encoding),
            text.replace(b"Event", b"Ev\xe9nt"),
            text.replace(b"-", b"\\u002d"),
            text.replace(b'"', b"'"),
            b"\xff\xfe" + text,
            b" \n\t" + text + b"\n",
            text + b"\0",
            text * 2,
            b"",
        )
    )


def _mutated(rng: Random, events: Sequence[str]) -> bytes:
    return mutated(rng, approval(*rng.choices(events, k=rng.choice((1, 2, 3)))))


def body(rng: Random, events: Sequence[str]) -> bytes:
    """Return a body, or something similar."""
    kinds = (_mutated, _mutated, _mutated, _shaped, _shaped, _nested, _numbered, _doubled, _encoded)
    return rng.choice(kinds)(rng, events)[: limits.BODY_BYTES]
