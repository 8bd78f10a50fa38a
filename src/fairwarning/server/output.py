"""Output to stdout, which may be a pipe that nobody reads."""

import os
import sys
from functools import partial

from fairwarning.store.worker import StoreThread


class Output:
    """Writes in a thread of its own, which delays neither polls nor the end of the process."""

    def __init__(self) -> None:
        self._thread: StoreThread | None = None

    async def write(self, content: str | bytes) -> None:
        """Write to stdout; return once the pipe has taken everything."""
        if sys.stdout is None:  # closed by the parent process
            return
        if isinstance(content, str):
            content = content.encode(sys.stdout.encoding or "utf-8", "backslashreplace")
        if self._thread is None:
            self._thread = StoreThread("stdout")
        await self._thread.run(partial(_write_all, content))


def _write_all(content: bytes) -> None:
    """Bypass the buffer of `sys.stdout`: Python would wait for its lock at the end."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(sys.stdout.fileno(), rest) :]
