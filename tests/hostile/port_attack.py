"""A program that attacks a console and an ARM port with slow, endless and huge requests.

python -m tests.hostile.port_attack CONSOLE_PORT ARM_PORT

It prints a line once every attack has begun, and goes on until it is ended.
"""

import asyncio
import ssl
import sys
from contextlib import suppress

from tests.hostile.wire import head

HOST = "Host: localhost"
FORM = "Content-Type: application/x-www-form-urlencoded"
CHUNKED = head("POST", "/login", HOST, FORM, "Transfer-Encoding: chunked")
HEAD = b"GET / HTTP/1.1\r\n"
ENDLESS = (
    HEAD + b"X-Long: ",
    b"GET /",
    CHUNKED + b"1\r\nx\r\n0\r\nX-Long: ",
    CHUNKED + b"1;",
    head("POST", "/login", HOST, FORM, "Content-Length: 999999999999"),
    head("POST", "/nowhere", HOST, "Content-Length: 999999999999"),
)
SLOW = (
    b"",
    HEAD + b"X-Slow: ",
    head("POST", "/login", HOST, FORM, "Content-Length: 999999"),
    CHUNKED + b"1;",
)
SLOW_OF_EACH = 5
PIECE = b"x" * 64 * 1024
PAUSE_SECONDS = 0.1


class Attack:
    """The attack on one port."""

    def __init__(self, port: int, *, tls: bool) -> None:
        self._port = port
        self._context = ssl._create_unverified_context() if tls else None
        self._all = [self._repeat(first, PIECE, 0.0) for first in ENDLESS]
        self._all += [self._repeat(first, b"x", PAUSE_SECONDS) for first in SLOW * SLOW_OF_EACH]
        self._begun = 0
        self.under_way = asyncio.Event()

    async def run(self) -> None:
        await asyncio.gather(*self._all)

    async def _repeat(self, first: bytes, more: bytes, pause: float) -> None:
        counted = False
        while True:
            with suppress(OSError):
                _, writer = await asyncio.open_connection(
                    "127.0.0.1", self._port, ssl=self._context
                )
                if not counted:
                    counted = True
                    self._begin()
                await _send(writer, first, more, pause)
            await asyncio.sleep(PAUSE_SECONDS)

    def _begin(self) -> None:
        self._begun += 1
        if self._begun == len(self._all):
            self.under_way.set()


async def _send(writer: asyncio.StreamWriter, first: bytes, more: bytes, pause: float) -> None:
    """Send until the server disconnects."""
    try:
        writer.write(first)
        while True:
            writer.write(more)
            await writer.drain()
            await asyncio.sleep(pause)
    finally:
        writer.transport.abort()


async def main(console: int, arm: int) -> None:
    """Attack both ports."""
    attacks = [Attack(console, tls=False), Attack(arm, tls=True)]
    running = asyncio.gather(*(attack.run() for attack in attacks))
    for attack in attacks:
        await attack.under_way.wait()
    sys.stdout.write("under way\n")
    sys.stdout.flush()
    await running


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
