"""A proxy to the database that can close its connections, or drop all data silently."""

import asyncio
from contextlib import suppress
from typing import Self

BYTES = 2**16


class Proxy:
    """Forwards connections to a port of this machine, until it is cut off."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._forwarding = asyncio.Event()
        self._forwarding.set()
        self._refusing = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server
        self._server.close()
        self._close_connections()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks)

    @property
    def port(self) -> int:
        """The port to connect to."""
        assert self._server
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def cut_off(self, *, silently: bool) -> None:
        """Forward nothing. If silently, connections stay open, else they are closed."""
        self._forwarding.clear()
        self._refusing = not silently
        if not silently:
            self._close_connections()

    def restore(self, target: int = 0) -> None:
        """Close old connections and forward new ones, to another port if given."""
        self._target = target or self._target
        self._close_connections()
        self._refusing = False
        self._forwarding.set()

    def _close_connections(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.append(asyncio.create_task(self._serve(reader, writer)))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, asyncio.CancelledError):
            await self._connect(reader, writer)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refusing:
            writer.transport.abort()
            return
        self._writers.add(writer)
        await self._forwarding.wait()
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._target)
        self._writers.add(server_writer)
        await asyncio.gather(
            self._forward(reader, server_writer), self._forward(server_reader, writer)
        )

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(BYTES):
                if not self._forwarding.is_set():
                    return  # drop the data; the connection stays open
                writer.write(data)
            writer.close()
