"""The commands that wait for the writer, and whether the writer has work to do."""

import asyncio

from fairwarning.core.commands import Command
from fairwarning.core.errors import Unavailable
from fairwarning.core.model import Operation
from fairwarning.service.writer.batch import PendingCommand


class CommandQueue:
    """A queue with one reader, the `CommandWriter`."""

    def __init__(self) -> None:
        self._waiting: list[PendingCommand] = []
        self.stopping = False  # whether no more commands are taken
        self._awake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def __len__(self) -> int:
        return len(self._waiting)

    async def submit(self, command: Command) -> Operation | None:
        """Queue a command and wait for its operation, if any."""
        if self.stopping:
            raise Unavailable("Stopping", "the service is stopping; try again when it is back")
        future: asyncio.Future[Operation | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(PendingCommand(command, future))
        self.wake()
        return await future

    def post(self, command: Command) -> None:
        """Queue a command that has no caller."""
        if not self.stopping:
            self._waiting.append(PendingCommand(command, None))
            self.wake()

    def stop(self) -> None:
        """Take no more commands, and drop those whose callers were cancelled."""
        self.stopping = True
        self._waiting = [
            pending
            for pending in self._waiting
            if pending.future is None or not pending.future.cancelled()
        ]

    async def settled(self) -> None:
        """Return once the queue is empty and nothing is due."""
        while not self._idle.is_set():
            await self._idle.wait()

    def is_idle(self) -> bool:
        """Whether the queue is empty and nothing is due."""
        return self._idle.is_set()

    def wake(self) -> None:
        """Let the writer look for work."""
        self._idle.clear()
        self._awake.set()

    # --- For the writer ---

    async def wait(self) -> None:
        """Wait for `wake`."""
        await self._awake.wait()
        self._awake.clear()

    def take(self, limit: int) -> list[PendingCommand]:
        """Take the oldest commands."""
        taken = self._waiting[:limit]
        del self._waiting[:limit]
        return taken

    def rest(self) -> None:
        """Nothing is left to do."""
        self._idle.set()
