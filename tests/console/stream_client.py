"""An ASGI client of the event stream that controls when it reads and disconnects."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message

from tests.fixtures.console import HOST, ConsoleHarness
from tests.fixtures.http import asgi_scope
from tests.fixtures.waiting import LIMIT_SECONDS


@dataclass(frozen=True)
class StreamMessage:
    """A message of the stream."""

    kind: str  # line or clock; empty for the opening and for keep-alives
    number: int  # -1 if the message has none
    data: Any


class StreamClient:
    """Reads the stream until it disconnects, on the event loop of the console."""

    def __init__(self, app: ASGIApp, scope: Message) -> None:
        self._app = app
        self._scope = scope
        self._disconnected = asyncio.Event()
        self._request_sent = False
        self._parts: asyncio.Queue[Message] = asyncio.Queue()
        self._rest = b""
        self.task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        await self._app(self._scope, self._receive, self._parts.put)

    async def _receive(self) -> Message:
        if not self._request_sent:
            self._request_sent = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._disconnected.wait()
        return {"type": "http.disconnect"}

    async def status(self) -> int:
        """Return the status of the response."""
        status: int = (await self._parts.get())["status"]
        return status

    async def next(self) -> StreamMessage:
        """Return the next message."""
        while b"\n\n" not in self._rest:
            self._rest += (await self._parts.get())["body"]
        message, _, self._rest = self._rest.partition(b"\n\n")
        fields = dict(line.partition(b": ")[::2] for line in message.split(b"\n"))
        data = json.loads(fields[b"data"]) if b"data" in fields else None
        return StreamMessage(
            fields.get(b"event", b"").decode(), int(fields.get(b"id", b"-1")), data
        )

    async def take(self, count: int) -> list[StreamMessage]:
        """Return the next `count` messages."""
        return [await self.next() for _ in range(count)]

    async def disconnect(self) -> None:
        """Disconnect; return once the server has ended the request."""
        self._disconnected.set()
        await self.task


def open_stream(
    console: ConsoleHarness, after: str = "", last: str = "", token: str = ""
) -> StreamClient:
    """Open a stream, and read its opening."""
    headers = [("Host", HOST), ("Authorization", f"Bearer {token or console.token}")]
    headers += [("Last-Event-ID", last)] if last else []
    query = f"?after={after}" if after else ""

    async def begin() -> StreamClient:
        listener = StreamClient(console.app, asgi_scope("GET", f"/api/stream{query}", headers))
        async with asyncio.timeout(LIMIT_SECONDS):
            assert await listener.status() == 200
            opening = await listener.next()
        assert (opening.kind, opening.data) == ("", None)
        return listener

    return console.run(begin())
