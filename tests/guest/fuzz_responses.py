"""Random documents in random responses: what an endpoint may send, and what none should.

An event is built well-formed, with odd values where any value is allowed, or malformed on purpose,
so that a test knows which events a client must deliver.
"""

import json
from dataclasses import dataclass
from random import Random
from typing import Any

NAMES = ("vm-1", "vm-2", "VM-1", "_vm-1", "ü" * 20)
TEXTS: tuple[str, ...] = ("", "x", "a\nb", "\x00", "\ud800", "ß\u202e", "x" * 5_000, "9" * 400)
DATES: tuple[str, ...] = (
    "",
    "soon",
    "Mon, 19 Sep 2016 18:29:47 GMT",
    "2031-01-01T00:00:00Z",
    "2031-01-01T00:00:00.1234567+01:00",
    "0001-01-01T00:00:00",
    "0001-01-01T00:00:00+23:00",
    "9999-12-31T23:59:59Z",
    "9999-12-31T23:59:59-23:00",
    "Fri, 31 Dec 9999 23:59:59 GMT",
    "Mon, 99 Sep 2016 18:29:47 GMT",
    "1970-01-01T00:00:00Z",
    "2999-12-31T23:59:59Z",
)
NO_TEXTS: tuple[Any, ...] = (
    None,
    0,
    -1,
    10**30,
    1e400,
    float("nan"),
    True,
    [],
    {},
    [[{}]],
    {"a": 1},
)
REQUIRED = ("EventId", "EventType", "EventStatus", "Resources")
NO_IDS = (*NO_TEXTS, "", "a\nb", "\x00", "\ud800", "x" * 100)
NO_RESOURCES = (*(value for value in NO_TEXTS if value != []), "vm-1", [""], ["vm-1", None], ["\n"])
STATUSES = (200, 204, 301, 304, 400, 401, 403, 404, 410, 429, 500, 503, 999)
HEADERS: tuple[str, ...] = (
    *(f"Date: {date}" for date in DATES),
    *("Retry-After: 3", "Retry-After: 99999999999", "Retry-After: soon", "X", ": x", " folded"),
    *('ETag: "1"', 'ETag: "a\rb"', 'ETag: "\x00"', f"ETag: {'x' * 5_000}", "ETag: ü"),
    *("Connection: keep-alive", "Connection: close", "Server: " + "x" * 5_000),
)
MARKS = (b"\r\n", b"\n", b"\r\n\r\n", b"0\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"-1", b"9" * 30)


@dataclass(frozen=True)
class SentDocument:
    """A document, and what a client must read from it."""

    raw: dict[str, Any]
    events: dict[str, dict[str, Any]]
    """The well-formed events by their ids."""
    skipped: list[str]
    """The ids of the malformed events; empty where they have none."""


def document(random: Random, known: tuple[str, ...]) -> SentDocument:
    """Return a document with some known events, new ones and malformed ones."""
    listed, events, skipped = [], {}, []
    ids = random.sample(known, random.randint(0, len(known)))
    ids += [f"E{random.getrandbits(20):X}" for _ in range(random.choice((0, 0, 1, 1, 2)))]
    for name in dict.fromkeys(ids):
        if random.random() < 0.25:
            malformed = _malform(random, _event(random, name))
            listed.append(malformed)
            has_id = isinstance(malformed, dict) and malformed.get("EventId") == name
            skipped.append(name if has_id else "")
        else:
            events[name] = _event(random, name)
            listed.append(events[name])
    if random.random() < 0.1:
        listed.append(random.choice(NO_TEXTS))
        skipped.append("")
    random.shuffle(listed)
    incarnation: object = random.choice((1, 7, "7", 10**20, 1.5))
    return SentDocument({"DocumentIncarnation": incarnation, "Events": listed}, events, skipped)


def _event(random: Random, name: str) -> dict[str, Any]:
    event = {
        "EventId": name,
        "EventStatus": random.choice(("Scheduled", "Scheduled", "Started", "STARTED", "Odd")),
        "EventType": random.choice(("Freeze", "Reboot", "preempt", "Terminate", "Teleport")),
        "Resources": random.choices(NAMES, k=random.choice((0, 1, 1, 2, 3))),
    }
    for member in ("NotBefore", "Description", "EventSource", "DurationInSeconds", "ResourceType"):
        if random.random() < 0.5:
            texts = DATES if member == "NotBefore" else TEXTS
            event[member] = random.choice(texts if random.random() < 0.7 else NO_TEXTS)
    if random.random() < 0.1:
        event[random.choice(TEXTS)] = random.choice(NO_TEXTS)
    return event


def _malform(random: Random, event: dict[str, Any]) -> object:
    if random.random() < 0.1:
        return random.choice((None, 5, "x", [], [event]))
    member = random.choice(REQUIRED)
    if random.random() < 0.3:
        del event[member]
    else:
        event[member] = random.choice(NO_RESOURCES if member == "Resources" else NO_IDS)
    return event


def proper(random: Random, sent: SentDocument) -> tuple[bytes, bool]:
    """Return a response with a document, and whether the connection stays open."""
    text = json.dumps(
        sent.raw, ensure_ascii=random.random() < 0.8 or "\\ud" in json.dumps(sent.raw)
    )
    return _response(random, 200, text.encode("utf-8" if random.random() < 0.95 else "utf-16"))


def _response(random: Random, status: int, body: bytes) -> tuple[bytes, bool]:
    end = "\r\n" if random.random() < 0.9 else "\n"
    lines = random.choices(HEADERS, k=random.choice((0, 1, 3)))
    framing = random.choice(("length", "length", "chunks", "closing"))
    if framing == "length":
        lines.append(f"content-LENGTH:{len(body)}")
    elif framing == "chunks":
        lines.append("Transfer-Encoding: Chunked")
        body = _chunks(random, body, end.encode())
    random.shuffle(lines)
    minor = 0 if random.random() < 0.1 else 1
    phrase = random.choice((" OK", " ", ""))
    head = end.join([f"HTTP/1.{minor} {status}{phrase}", *lines, "", ""]).encode("latin-1")
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" if random.random() < 0.05 else b""
    return interim + head + body, framing != "closing"


def _chunks(random: Random, body: bytes, end: bytes) -> bytes:
    chunks = b""
    while body:
        size = random.randint(1, len(body))
        part, body = body[:size], body[size:]
        chunks += b"%x%s%s%s%s" % (size, random.choice((b"", b";a=b", b" ")), end, part, end)
    return chunks + b"0" + end + random.choice((b"", b"X: x" + end)) + end


def damaged(random: Random, sent: SentDocument) -> bytes:
    """Return bytes that may be anything, after which the connection is closed."""
    if random.random() < 0.3:
        body = random.choice(
            (b"", b"{", b"[" * 5_000, b"9" * 5_000, b'{"error": "x\\ny"}', b"\xff")
        )
        return _response(random, random.choice(STATUSES), body)[0]
    data = bytearray(proper(random, sent)[0])
    for _ in range(random.choice((1, 1, 2, 5))):
        start = min(int(random.expovariate(1 / 60)), len(data))  # most often in the head
        stop = start + random.choice((0, 1, 1, 2, 20, 10_000))
        new = random.choice((b"", random.randbytes(2), data[start:stop] * 2, random.choice(MARKS)))
        data[start:stop] = new
    return bytes(data)
