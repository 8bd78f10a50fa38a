"""The client for asyncio programs: the same conversation over asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, TypeVar

from fairwarning.guest.async_transport import AsyncHttpTransport
from fairwarning.guest.client import ClientBase
from fairwarning.guest.conversation import (
    ConnectionLost,
    Reply,
    Script,
    Step,
    Wait,
)
from fairwarning.guest.events import Change, Document, Event, changes

if TYPE_CHECKING:
    from typing import Self

T = TypeVar("T")


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
