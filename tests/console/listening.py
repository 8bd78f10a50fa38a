"""Somebody who listens to the stream, as a server sees it: reads when it likes, and goes away."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp, Message

from tests.fixtures.console import HOST, ConsoleHarness
from tests.fixtures.http import asgi_scope
from tests.fixtures.waiting import LIMIT_SECONDS


@dataclass(frozen=True)
class Said:
    """One message of the stream."""

    kind: str  # line, clock; empty: the opening, or a sign of life
    number: int  # -1: it has none
    data: Any


class Listener:
    """Listens until it leaves; on the loop of the console."""

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

    async def next(self) -> Said:
        """The next message."""
        while b"\n\n" not in self._rest:
            self._rest += (await self._parts.get())["body"]
        message, _, self._rest = self._rest.partition(b"\n\n")
        fields = dict(line.partition(b": ")[::2] for line in message.split(b"\n"))
        data = json.loads(fields[b"data"]) if b"data" in fields else None
        return Said(fields.get(b"event", b"").decode(), int(fields.get(b"id", b"-1")), data)

    async def take(self, count: int) -> list[Said]:
        """So many messages."""
        return [await self.next() for _ in range(count)]

    async def leave(self) -> None:
        """Hang up; return once the other side has let go."""
        self._left.set()
        await self.task


def listen(it: ConsoleHarness, after: str = "", last: str = "", token: str = "") -> Listener:
    """Begin to listen; the opening has been heard when this returns."""
    headers = [("Host", HOST), ("Authorization", f"Bearer {token or it.token}")]
    headers += [("Last-Event-ID", last)] if last else []
    query = f"?after={after}" if after else ""

    async def begin() -> Listener:
        listener = Listener(it.app, asgi_scope("GET", f"/api/stream{query}", headers))
        async with asyncio.timeout(LIMIT_SECONDS):
            assert await listener.status() == 200
            opening = await listener.next()
        assert (opening.kind, opening.data) == ("", None)
        return listener

    return it.run(begin())
