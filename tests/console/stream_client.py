"""A client of the event stream, as a server sees it: it reads when it likes, and disconnects."""

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
    """One message of the stream."""

    kind: str  # line, clock; empty: the opening, or a sign of life
    number: int  # -1: it has none
    data: Any


class StreamClient:
    """Reads the stream until it disconnects, on the loop of the console."""

    def __init__(self, app: ASGIApp, asked: Message) -> None:
        self._app = app
        self._asked = asked
        self._left = asyncio.Event()
        self._asked_for = False
        self._parts: asyncio.Queue[Message] = asyncio.Queue()
        self._rest = b""
        self.task = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        await self._app(self._asked, self._receive, self._parts.put)

    async def _receive(self) -> Message:
        if not self._asked_for:
            self._asked_for = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def status(self) -> int:
        """Of the answer."""
        status: int = (await self._parts.get())["status"]
        return status

    async def next(self) -> StreamMessage:
        """The next message."""
        while b"\n\n" not in self._rest:
            self._rest += (await self._parts.get())["body"]
        message, _, self._rest = self._rest.partition(b"\n\n")
        fields = dict(line.partition(b": ")[::2] for line in message.split(b"\n"))
        data = json.loads(fields[b"data"]) if b"data" in fields else None
        return StreamMessage(
            fields.get(b"event", b"").decode(), int(fields.get(b"id", b"-1")), data
        )

    async def take(self, count: int) -> list[StreamMessage]:
        """So many messages."""
        return [await self.next() for _ in range(count)]

    async def disconnect(self) -> None:
        """Disconnect; return once the server has ended the request."""
        self._left.set()
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
