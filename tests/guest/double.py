"""A test double of Azure's endpoint, with its normal behaviour and its failures.

It does not support long polls. A test sets the failures while it runs:

with Double() as azure:
    azure.announce("vm-1")
    azure.failures.append(refusal(410))
    client = ScheduledEvents(azure.url)
"""

import json
import socket
import struct
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, BinaryIO, Self
from urllib.parse import parse_qsl, urlsplit

from fairwarning.core import times
from tests.fixtures.waiting import LIMIT_SECONDS

FIRST_ID = 0x4CAEA225
NOT_BEFORE = 1_900_000_000  # epoch seconds
RESET = None  # as a failure: reset the connection
PARAMETERS = frozenset({"api-version", "format"})

Event = dict[str, Any]


class Framing(StrEnum):
    """How a response indicates its end."""

    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSING = "closing"  # by its length, and the connection is closed
    OLD = "HTTP/1.0"  # by closing the connection only


@dataclass(frozen=True)
class Request:
    """A request of a client, and its connection."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]  # names in lower case
    body: bytes
    connection: int


def refusal(status: int, *headers: str, error: str = "") -> bytes:
    """Return an error response as bytes; the headers are lines."""
    body = json.dumps({"error": error}) if error else ""
    lines = [f"HTTP/1.1 {status} Whatever", *headers, f"Content-Length: {len(body)}", "", body]
    return "\r\n".join(lines).encode()


class Double:
    """Azure's endpoint for one machine; without a name it has no instance metadata."""

    def __init__(self, *, framing: Framing = Framing.LENGTH, name: str = "vm-1") -> None:
        self.framing = framing
        self.name = name
        self.events: list[Event] = []
        self.incarnation = 1
        self.approved: list[str] = []
        self.requests: list[Request] = []
        self.connections = 0

        self.strict = False  # whether unknown parameters are refused
        self.failures: deque[bytes | None] = deque()
        """Replacements of the next responses: raw bytes, or a reset."""
        self.after: Callable[[], None] = lambda: None
        """Called after every response to a poll."""

        self._may_answer = threading.Event()
        self._may_answer.set()
        self._changed = threading.Condition()
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._begin(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        self._may_answer.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join(LIMIT_SECONDS)
        self._listener.close()
        for connection in self._open:
            with suppress(OSError):  # the client may have closed it
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(LIMIT_SECONDS)

    # --- Events ---

    def announce(self, *resources: str, **more: object) -> Event:
        """Add an event; `more` are further fields."""
        number = FIRST_ID + len(self.events) + 16 * self.incarnation
        event = {
            "EventId": f"{number:08X}-A741-474D-A72E-428C86FCD853",
            "EventStatus": "Scheduled",
            "EventType": "Reboot",
            "ResourceType": "VirtualMachine",
            "Resources": list(resources or (self.name,)),
            "NotBefore": times.rfc1123(NOT_BEFORE),
            "Description": "",
            "EventSource": "Platform",
            "DurationInSeconds": -1,
            **more,
        }
        self._show([*self.events, event])
        return event

    def begin(self, event: Event) -> None:
        """Start the event: NotBefore becomes empty."""
        started = {**event, "EventStatus": "Started", "NotBefore": ""}
        self._show(
            [started if item["EventId"] == event["EventId"] else item for item in self.events]
        )

    def end(self, event: Event) -> None:
        """Remove an event that is over or cancelled."""
        self._show([item for item in self.events if item["EventId"] != event["EventId"]])

    def _show(self, events: list[Event]) -> None:
        self.events = events
        self.incarnation += 1

    # --- For the test ---

    @contextmanager
    def silence(self) -> Iterator[None]:
        """Hold all responses until the end of the block."""
        self._may_answer.clear()
        try:
            yield
        finally:
            self._may_answer.set()

    def wait_until(self, requests: int) -> None:
        """Wait until this many requests have arrived."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.requests) >= requests, LIMIT_SECONDS)

    @property
    def polls(self) -> list[Request]:
        return [
            request
            for request in self.requests
            if request.method == "GET" and "events" in request.path
        ]

    # --- Serving ---

    def _begin(self, what: Callable[..., None], *args: object) -> None:
        thread = threading.Thread(target=what, args=args, name="azure", daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.append(connection)
            self._begin(self._serve, connection, self.connections)

    def _serve(self, connection: socket.socket, number: int) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection, connection.makefile("rb") as reader:
            try:
                while (request := _read(reader, number)) is not None:
                    if not self._answered(connection, request):
                        return
            except OSError:
                pass  # the client has disconnected

    def _answered(self, connection: socket.socket, request: Request) -> bool:
        """Answer a request; return whether the connection stays open."""
        failure = self.failures.popleft() if self.failures else b""
        with self._changed:
            self.requests.append(request)
            self._changed.notify_all()
        self._may_answer.wait(LIMIT_SECONDS)
        if failure is None:
            linger = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            return False
        if failure:
            connection.sendall(failure)
            return False
        connection.sendall(self._answer(request))
        if request.method == "GET":
            self.after()
        return self.framing in {Framing.LENGTH, Framing.CHUNKED}

    def _answer(self, request: Request) -> bytes:
        if request.headers.get("metadata", "").lower() != "true":
            return self._render(400, b'{"error":"Required metadata header not specified"}')
        if self.strict and not PARAMETERS.issuperset(request.query):
            return self._render(400, b'{"error":"Unknown parameter"}')
        if request.path == "/metadata/instance/compute/name" and self.name:
            return self._render(200, self.name.encode())
        if request.path != "/metadata/scheduledevents":
            return self._render(404, b'{"error":"Not found"}')
        return self._approve(request) if request.method == "POST" else self._document(request)

    def _document(self, request: Request) -> bytes:
        tag = f'"{self.incarnation}"'
        if request.headers.get("if-none-match") == tag:
            return self._render(304, b"", f"ETag: {tag}")
        document = {"DocumentIncarnation": self.incarnation, "Events": self.events}
        return self._render(200, json.dumps(document).encode(), f"ETag: {tag}")

    def _approve(self, request: Request) -> bytes:
        ids = [item["EventId"] for item in json.loads(request.body)["StartRequests"]]
        self.approved += ids
        return self._render(200, b"")

    def _render(self, status: int, body: bytes, *headers: str) -> bytes:
        protocol = "HTTP/1.0" if self.framing is Framing.OLD else "HTTP/1.1"
        lines = [f"{protocol} {status} Whatever", "Content-Type: application/json", *headers]
        if status == 304:
            body = b""
        elif self.framing is Framing.CHUNKED:
            lines.append("Transfer-Encoding: chunked")
            body = b"".join(map(_chunk, (body[:7], body[7:]))) + b"0\r\n\r\n"
        elif self.framing is not Framing.OLD:
            lines.append(f"Content-Length: {len(body)}")
        if self.framing is Framing.CLOSING:
            lines.append("Connection: close")
        return "\r\n".join([*lines, "", ""]).encode() + body


def _chunk(part: bytes) -> bytes:
    return b"%x;more=1\r\n%s\r\n" % (len(part), part) if part else b""


def _read(reader: BinaryIO, number: int) -> Request | None:
    words = reader.readline().decode().split()
    if len(words) != 3:
        return None
    headers = {}
    while line := reader.readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = reader.read(int(headers.get("content-length", 0)))
    parts = urlsplit(words[1])
    return Request(words[0], parts.path, dict(parse_qsl(parts.query)), headers, body, number)
