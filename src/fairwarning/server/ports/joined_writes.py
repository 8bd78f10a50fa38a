"""A transport that sends in one piece what is written in one turn of the event loop.

uvicorn writes the head of a response and its body apart: two TLS records, and two system calls.
"""

import asyncio
from typing import Any

_JOINED_BYTES = 16 * 1024  # a larger response is sent as it is written, so that it can be paused


class JoinedWrites:
    """Wraps the transport of a connection."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self._bytes = 0  # of them

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  (whatever the transport has)
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send the data at the end of this turn, or with the next flush."""
        if not self._parts:
            self._loop.call_soon(self.flush)
        self._parts.append(data)
        self._bytes += len(data)
        if self._bytes > _JOINED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Send what was written so far."""
        if self._parts:
            data, self._parts, self._bytes = b"".join(self._parts), [], 0
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
        self._parts, self._bytes = [], 0
        self._transport.abort()
