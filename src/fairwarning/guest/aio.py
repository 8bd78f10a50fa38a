"""The client for asyncio programs: the same conversation over asyncio.

Its socket is known to the event loop only during an operation, so that a connection belongs to no
loop, and a process that was forked can close its copy.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, TypeVar

from fairwarning.guest.client import ClientBase
from fairwarning.guest.conversation import (
    ConnectionLost,
    Reply,
    Script,
    Step,
    Wait,
)
from fairwarning.guest.events import Change, Document, Event, changes
from fairwarning.guest.http_message import RECEIVE_BYTES, ResponseParser, serialize
from fairwarning.guest.session import HttpRequest, HttpResponse
from fairwarning.guest.transport import CONNECT_SECONDS, EndpointConnection, targets

if TYPE_CHECKING:
    from typing import Self

if sys.version_info >= (3, 11):
    from asyncio import timeout
else:  # the guest side runs on 3.9 (G10)

    class timeout:  # noqa: N801  (the name in the standard library)
        """Cancel what runs inside after some seconds, and raise `TimeoutError`."""

        def __init__(self, seconds: float) -> None:
            self._seconds = seconds
            self._expired = False

        async def __aenter__(self) -> None:
            self._task = asyncio.current_task()
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._expire)

        def _expire(self) -> None:
            self._expired = True
            self._task.cancel()

        async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
            self._timer.cancel()
            if self._expired and kind is asyncio.CancelledError:
                raise TimeoutError(f"not done within {self._seconds:g} s")


T = TypeVar("T")


class AsyncHttpTransport(EndpointConnection):
    """Sends requests, one after the other. Each can be cancelled."""

    async def send(self, request: HttpRequest) -> HttpResponse:
        """Send a request and read the complete response within the request's timeout.

        Raise `OSError`.
        """
        is_reused, parser = self._is_open(), ResponseParser()
        async with timeout(request.seconds):
            try:
                return await self._exchange(request, parser)
            except TimeoutError:
                raise
            except OSError:
                if not is_reused or parser.has_data:
                    raise
                # The idle connection was closed: retry once.
                return await self._exchange(request, ResponseParser())

    async def _exchange(self, request: HttpRequest, parser: ResponseParser) -> HttpResponse:
        loop = asyncio.get_running_loop()
        try:
            if self._socket is None:
                async with timeout(CONNECT_SECONDS):
                    self._set_socket(await self._connect())
            assert self._socket is not None
            await loop.sock_sendall(self._socket, serialize(self._address, request))
            response = None
            while response is None:
                response = parser.feed(await loop.sock_recv(self._socket, RECEIVE_BYTES))
        except BaseException:
            self.close()  # leftover bytes must not be read as the next response
            raise
        if not parser.is_reusable:
            self.close()
        return response

    async def _connect(self) -> socket.socket:
        loop, failure = asyncio.get_running_loop(), OSError("the host has no address")
        for family, target in await loop.run_in_executor(None, targets, self._address):
            connected = socket.socket(family, socket.SOCK_STREAM)
            connected.setblocking(False)  # noqa: FBT003  (as the standard library has it)
            try:
                await loop.sock_connect(connected, target)
            except OSError as error:
                connected.close()
                failure = error
            except BaseException:
                connected.close()
                raise
            else:
                return connected
        raise failure


class AsyncScheduledEvents(ClientBase):
    """The scheduled events of this machine, and a way to approve them, for asyncio.

    Only one task at a time may use it, within one event loop. All methods can be cancelled safely.
    """

    _connection_class = AsyncHttpTransport
    _transport: AsyncHttpTransport

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

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
            self._conversation.known = known
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
        except OSError as error:
            return ConnectionLost(str(error) or type(error).__name__)
