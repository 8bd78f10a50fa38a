"""The client for asyncio programs: the same conversation over asyncio streams."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from datetime import datetime, timezone
from typing import TYPE_CHECKING, TypeVar

from fairwarning.guest import session
from fairwarning.guest.async_timeout import timeout
from fairwarning.guest.conversation import (
    PATIENCE_SECONDS,
    ConnectionLost,
    Conversation,
    Reply,
    Script,
    Step,
    Wait,
)
from fairwarning.guest.endpoint import EndpointAddress
from fairwarning.guest.endpoint import endpoint as endpoint_of
from fairwarning.guest.events import Document, Event
from fairwarning.guest.session import HttpRequest, HttpResponse
from fairwarning.guest.transport import CONNECT_SECONDS, RESPONSE_BYTES
from fairwarning.guest.watch import Change, changes

if TYPE_CHECKING:
    from typing import Self

_LINE_BYTES = 16 * 1024
_HEADERS = 100

T = TypeVar("T")


class AsyncScheduledEvents:
    """The scheduled events of this machine, and a way to approve them, for asyncio.

    Only one task at a time may use it, within one event loop. All methods can be cancelled safely.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        name: str = "",
        version: str = session.VERSION,
        every: float = session.INTERVAL_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """Take the same arguments as `ScheduledEvents`."""
        address = endpoint_of(endpoint)
        self._transport = _HttpTransport(address)
        self._conversation = Conversation(
            time.monotonic, address, name=name, version=version, every=every, patience=patience
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; the next request opens a new one."""
        self._transport.close()

    @property
    def read_at(self) -> float:
        """The time of the last successful read, by `time.monotonic`."""
        return self._conversation.read_at

    def now(self) -> datetime:
        """Return the endpoint's time, to compare with NotBefore; before any response, our own."""
        seconds = self._conversation.endpoint_time()
        return (
            datetime.now(timezone.utc)
            if seconds is None
            else datetime.fromtimestamp(seconds, timezone.utc)
        )

    async def events(self) -> tuple[Event, ...]:
        """Return all current events of this machine's scope."""
        return (await self.document()).events

    async def document(self) -> Document:
        """Return the current document. Raise `Unavailable` if there is none within `patience`."""
        return await self._run(self._conversation.document())

    async def wait(self, timeout: float | None = None) -> Document:
        """Return the document when it has changed since last time, or when the timeout is over."""
        return await self._run(self._conversation.wait(timeout))

    async def watch(self) -> AsyncGenerator[Change, None]:
        """Yield changes to events without end, beginning with the events that exist already."""
        known: Document | None = None
        while True:
            self._conversation.set_known(known)
            document = await self.wait()
            for change in changes(known or Document(), document):
                yield change
            known = document

    async def me(self) -> str:
        """Return this machine's name as events use it, which may differ from the host name (G3)."""
        return await self._run(self._conversation.own_name())

    async def approve(self, *events: Event | str, others: bool = False) -> None:
        """Approve events, or events by id. Approving an event again has no effect.

        Raise `Refused` for an event that names other machines, because it would start for them
        too; with `others`, approve it for all of them.
        """
        await self._run(self._conversation.approve(events, others=others))

    async def _run(self, script: Script[T]) -> T:
        reply: Reply = None
        while True:
            try:
                step = script.send(reply)
            except StopIteration as done:
                result: T = done.value
                return result
            reply = await self._do(step)

    async def _do(self, step: Step) -> Reply:
        if isinstance(step, Wait):
            await asyncio.sleep(step.seconds)
            return None
        try:
            return await self._transport.send(step)
        except (OSError, ValueError, EOFError, TimeoutError) as error:
            return ConnectionLost(str(error) or type(error).__name__)


class _HttpTransport:
    """A persistent HTTP connection to the endpoint."""

    def __init__(self, address: EndpointAddress) -> None:
        self._address = address
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request and read the complete response within the request's timeout."""
        reused = self._streams is not None
        async with timeout(request.seconds):
            try:
                return await self._exchange(request)
            except TimeoutError:
                raise
            except (OSError, EOFError):
                if not reused:
                    raise
                return await self._exchange(request)  # the idle connection was closed: retry once

    async def _exchange(self, request: HttpRequest) -> HttpResponse:
        try:
            if self._streams is None:
                async with timeout(CONNECT_SECONDS):
                    self._streams = await self._connect()
            reader, writer = self._streams
            writer.write(self._serialize(request))
            await writer.drain()
            response = await _read_response(reader)
        except BaseException:
            self.close()  # leftover bytes must not be read as the next response
            raise
        if response.headers.get("connection", "").lower() == "close":
            self.close()
        return response

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        address = self._address
        if address.socket:
            if sys.platform == "win32":
                raise OSError("this system does not support Unix sockets")
            return await asyncio.open_unix_connection(address.socket, limit=_LINE_BYTES)
        return await asyncio.open_connection(address.host, address.port, limit=_LINE_BYTES)

    def _serialize(self, request: HttpRequest) -> bytes:
        address = self._address
        origin = EndpointAddress(address.host, address.port)
        host = str(origin).removeprefix("http://") or "localhost"
        headers = {"Host": host if not address.socket else "localhost", **request.headers}
        if request.body:
            headers["Content-Length"] = str(len(request.body))
        lines = [f"{request.method} {address.base}{request.path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + request.body

    def close(self) -> None:
        """Close the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _read_response(reader: asyncio.StreamReader) -> HttpResponse:
    while True:
        protocol, _, rest = (await _line(reader)).partition(" ")
        status = int(rest[:3])
        if not protocol.startswith("HTTP/1."):
            raise ValueError(f"the response is not HTTP: {protocol[:40]!r}")
        headers = await _headers(reader)
        if status >= 200:  # noqa: PLR2004  (1xx responses are interim)
            break
    if protocol == "HTTP/1.0":
        headers.setdefault("connection", "close")
    return HttpResponse(status, headers, await _body(reader, status, headers))


async def _line(reader: asyncio.StreamReader) -> str:
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.LimitOverrunError as error:
        raise ValueError("a line of the response is too long") from error
    return line.decode("latin-1").rstrip("\r\n")


async def _headers(reader: asyncio.StreamReader) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(_HEADERS):
        line = await _line(reader)
        if not line:
            return headers
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    raise ValueError("the response has too many headers")


async def _body(reader: asyncio.StreamReader, status: int, headers: dict[str, str]) -> bytes:
    if status in {204, 304}:
        return b""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return await _chunks(reader)
    length = headers.get("content-length")
    if length is None:
        headers["connection"] = "close"
        body = b""
        while part := await reader.read(_LINE_BYTES):
            body += part
            _check_size(len(body))
        return body
    return await reader.readexactly(_check_size(int(length)))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await _line(reader)).partition(";")[0], 16):
        body += await reader.readexactly(_check_size(len(body) + size) - len(body))
        await _line(reader)
    await _headers(reader)  # trailers
    return body


def _check_size(size: int) -> int:
    if not 0 <= size <= RESPONSE_BYTES:
        raise ValueError(f"a response may have at most {RESPONSE_BYTES} bytes")
    return size
