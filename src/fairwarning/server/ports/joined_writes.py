"""A transport that sends in one piece what is written in one turn of the event loop.

uvicorn writes the head of a response and its body apart: two TLS records, and two system calls.
"""

import asyncio
from typing import Any


class JoinedWrites:
    """Wraps the transport of a connection."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever the transport has)
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send the data at the end of this turn, or with the next flush."""
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)

    def flush(self) -> None:
        """Send what was written so far."""
        if self._parts:
            data, self._parts = b"".join(self._parts), []
            if not self._transport.is_closing():
                self._transport.write(data)

    def write_eof(self) -> None:
        """Send what was written, and end this direction."""
        self.flush()
        self._transport.write_eof()

    def close(self) -> None:
        """Send what was written, and close."""
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        """Close at once; what was not sent is lost."""
        self._parts.clear()
        self._transport.abort()
