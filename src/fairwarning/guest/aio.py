"""The client for programs with asyncio: the same conversation over streams of its own."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from types import TracebackType
from typing import Self, TypeVar

from fairwarning.guest import session
from fairwarning.guest.client import CONNECT_SECONDS
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
from fairwarning.guest.watch import Change, changes

_LINE_BYTES = 16 * 1024
_HEADERS = 100
_BODY_BYTES = 16 * 1024 * 1024  # a document has some hundred kilobytes at most

T = TypeVar("T")


class AsyncScheduledEvents:
    """What is going to happen to this machine, and the means to approve it, for asyncio.

    One task at a time may use it, all in one event loop. Cancelling any of its methods is safe.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        *,
        version: str = session.VERSION,
        every: float = session.EVERY_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        """As `ScheduledEvents`."""
        self._wire = _Wire(endpoint_of(endpoint))
        self._talk = Conversation(time.monotonic, version=version, every=every, patience=patience)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection; it is made again when it is needed."""
        self._wire.close()

    @property
    def read_at(self) -> float:
        """When the endpoint last told us of a document, by `time.monotonic`."""
        return self._talk.read_at

    async def events(self) -> tuple[Event, ...]:
        """All that is planned now, for this machine and for those it shares a fate with."""
        return (await self.document()).events

    async def document(self) -> Document:
        """The same, with its incarnation. Raises `Unavailable` once patience has ended."""
        return await self._run(self._talk.document())

    async def wait(self, timeout: float | None = None) -> Document:  # noqa: ASYNC109  (as its twin)
        """Return when the document is another than last time, or the timeout has passed."""
        return await self._run(self._talk.wait(timeout))

    async def watch(self) -> AsyncGenerator[Change, None]:
        """What happens to events, one by one, for ever; first of all what is planned already."""
        known: Document | None = None
        while True:
            self._talk.anew(known)
            document = await self.wait()
            for change in changes(known or Document(), document):
                yield change
            known = document

    async def me(self) -> str:
        """The name of this machine as events have it; its host name is another (G3)."""
        return await self._run(self._talk.own_name())

    async def approve(self, *events: Event | str) -> None:
        """Let these begin now, for all machines they name. Approving twice does no harm."""
        ids = [event.id if isinstance(event, Event) else event for event in events]
        await self._run(self._talk.approve(ids))

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
            return await self._wire.send(step)
        except (OSError, ValueError, EOFError, TimeoutError) as error:
            return ConnectionLost(str(error) or type(error).__name__)


class _Wire:
    """One connection, kept as long as it lasts."""

    def __init__(self, where: EndpointAddress) -> None:
        self._where = where
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, ask: HttpRequest) -> HttpResponse:
        """Send a request and read its answer whole."""
        kept = self._streams is not None
        try:
            return await self._exchange(ask)
        except TimeoutError:
            raise
        except (OSError, EOFError):
            if not kept:
                raise
            return await self._exchange(ask)  # it was closed while nothing was asked: once more

    async def _exchange(self, ask: HttpRequest) -> HttpResponse:
        try:
            if self._streams is None:
                async with asyncio.timeout(CONNECT_SECONDS):
                    self._streams = await self._connect()
            reader, writer = self._streams
            async with asyncio.timeout(ask.seconds):
                writer.write(self._request(ask))
                await writer.drain()
                answer = await _answer(reader)
        except BaseException:
            self.close()  # what is left of a broken exchange must not be read as another answer
            raise
        if answer.headers.get("connection", "").lower() == "close":
            self.close()
        return answer

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        where = self._where
        if where.socket:
            if sys.platform == "win32":
                raise OSError("this system has no Unix sockets")
            return await asyncio.open_unix_connection(where.socket, limit=_LINE_BYTES)
        return await asyncio.open_connection(where.host, where.port, limit=_LINE_BYTES)

    def _request(self, ask: HttpRequest) -> bytes:
        where = self._where
        host = str(EndpointAddress(where.host, where.port)).removeprefix("http://") or "localhost"
        headers = {"Host": host if not where.socket else "localhost", **ask.headers}
        if ask.body:
            headers["Content-Length"] = str(len(ask.body))
        lines = [f"{ask.method} {where.base}{ask.path} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        return "\r\n".join([*lines, "", ""]).encode("latin-1") + ask.body

    def close(self) -> None:
        """Let go of the connection."""
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


async def _answer(reader: asyncio.StreamReader) -> HttpResponse:
    while True:
        protocol, _, rest = (await _line(reader)).partition(" ")
        status = int(rest[:3])
        if not protocol.startswith("HTTP/1."):
            raise ValueError(f"this is no HTTP: {protocol[:40]!r}")
        headers = await _headers(reader)
        if status >= 200:  # noqa: PLR2004  (what is below is only a note on the way)
            break
    if protocol == "HTTP/1.0":
        headers.setdefault("connection", "close")
    return HttpResponse(status, headers, await _body(reader, status, headers))


async def _line(reader: asyncio.StreamReader) -> str:
    try:
        line = await reader.readuntil(b"\n")
    except asyncio.LimitOverrunError as error:
        raise ValueError("a line is too long") from error
    return line.decode("latin-1").rstrip("\r\n")


async def _headers(reader: asyncio.StreamReader) -> dict[str, str]:
    headers: dict[str, str] = {}
    for _ in range(_HEADERS):
        line = await _line(reader)
        if not line:
            return headers
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    raise ValueError("there are too many headers")


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
            _bounded(len(body))
        return body
    return await reader.readexactly(_bounded(int(length)))


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    body = b""
    while size := int((await _line(reader)).partition(";")[0], 16):
        body += await reader.readexactly(_bounded(len(body) + size) - len(body))
        await _line(reader)
    await _headers(reader)  # trailers
    return body


def _bounded(size: int) -> int:
    if not 0 <= size <= _BODY_BYTES:
        raise ValueError(f"an answer has at most {_BODY_BYTES} bytes")
    return size
