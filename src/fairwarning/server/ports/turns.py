"""Requests take turns: one begins in each turn of the event loop, so that polls go first (IB7)."""

import asyncio
from collections import deque


class Turns:
    """A queue for a turn of the event loop, in the order of arrival."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._taken = False

    async def take(self) -> None:
        """Wait for a turn that no other request has."""
        if self._taken:
            turn = self._loop.create_future()
            self._waiting.append(turn)
            await turn
        else:
            self._taken = True
            self._loop.call_soon(self._pass_on)

    def _pass_on(self) -> None:
        while self._waiting and self._waiting[0].done():  # cancelled
            self._waiting.popleft()
        self._taken = bool(self._waiting)
        if self._taken:
            self._waiting.popleft().set_result(None)
            self._loop.call_soon(self._pass_on)
