"""A web server that drains before an event: stops accepting, finishes its requests, approves.

If the machine keeps running (a freeze, or the event was cancelled), it opens again. A client that
connects just as it closes is refused; to avoid that, remove it from a load balancer first.
"""

import asyncio
import sys
from contextlib import suppress

from fairwarning import AsyncScheduledEvents, Phase

DRAIN_SECONDS = 60.0  # the longest wait for requests in progress


class Web:
    """Answers each request with the length of its body."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self._in_progress = 0

    async def open(self) -> None:
        """Accept requests."""
        if self._server is None:
            self._server = await asyncio.start_server(self._answer, "127.0.0.1", self._port)
            print("open", flush=True)

    async def drain(self) -> bool:
        """Stop accepting requests; return whether those in progress end in time."""
        if self._server is not None:
            self._server.close()
            self._server = None
        print(f"closed, {self._in_progress} in progress", flush=True)
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), DRAIN_SECONDS)
        return self._idle.is_set()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._in_progress += 1
        self._idle.clear()
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            size = int(head.partition("content-length:")[2].partition("\r\n")[0] or 0)
            body = f"{len(await reader.readexactly(size))} bytes\n".encode()
            lines = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write(lines.encode() + body)
            await writer.drain()
        except (EOFError, asyncio.LimitOverrunError, ConnectionError, ValueError):
            pass  # the client disconnected, or sent nonsense
        finally:
            writer.close()
            self._in_progress -= 1
            if not self._in_progress:
                self._idle.set()


async def main() -> None:
    """Serve requests, and watch for events."""
    web = Web(int(sys.argv[1]))
    await web.open()
    async with AsyncScheduledEvents() as client:
        me = await client.me()
        async for change in client.watch():
            if not change.event.concerns(me):
                continue
            if change.phase is Phase.SCHEDULED:
                drained = await web.drain()
                if drained and change.event.concerns_only(me):  # other machines may not be ready
                    await client.approve(change.event)
            elif change.phase is Phase.OVER:
                await web.open()


if __name__ == "__main__":
    asyncio.run(main())
