"""A line to the database that can be cut: at once, or so that nothing is heard any more."""

import asyncio
from contextlib import suppress
from typing import Self

BYTES = 2**16


class Proxy:
    """Passes connections on to a port of this machine, until it is cut."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._through = asyncio.Event()
        self._through.set()
        self._refuses = False
        self._lines: set[asyncio.StreamWriter] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server
        self._server.close()
        self._hang_up()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks)

    @property
    def port(self) -> int:
        """Where to connect instead."""
        assert self._server
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def cut(self, *, silently: bool) -> None:
        """Nothing gets through. Silently: connections stay, and nobody is told."""
        self._through.clear()
        self._refuses = not silently
        if not silently:
            self._hang_up()

    def mend(self) -> None:
        """New connections get through; what was lost stays lost."""
        self._hang_up()
        self._refuses = False
        self._through.set()

    def _hang_up(self) -> None:
        for line in self._lines:
            line.transport.abort()
        self._lines.clear()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.append(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            await self._connect(reader, writer)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        self._lines.add(writer)
        await self._through.wait()
        back, forth = await asyncio.open_connection("127.0.0.1", self._target)
        self._lines.add(forth)
        await asyncio.gather(self._pass_on(reader, forth), self._pass_on(back, writer))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(BYTES):
                if not self._through.is_set():
                    return  # lost; the connection stays open
                writer.write(data)
            writer.close()
