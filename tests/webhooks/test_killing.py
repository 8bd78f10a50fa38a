"""SIGKILL during deliveries: nothing is lost, the order stays, and few messages repeat."""

import asyncio
import random
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler
from itertools import pairwise
from pathlib import Path

import pytest

from fairwarning.store.sqlite import SQLiteStore
from tests.fixtures.programs import ROOT
from tests.fixtures.receiver import ReceivedRequest, Receiver, ReceiverResponse, verified
from tests.fixtures.waiting import wait_until
from tests.webhooks.webhook_fleet import REPORTED

REBOOTS = 15
MESSAGES = 4 * REBOOTS
KILLS = {2: "before", 9: "after", 10: "before", 23: "soon", 31: "soon", 44: "after", 58: "soon"}
"""When the process is killed, by message: before the response, after it, or a moment later."""


class KilledService:
    """A service process that is killed at set messages and started again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.kills = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._random = random.Random(11)

    def start(self, url: str) -> None:
        """Start a new process."""
        command = [sys.executable, "-m", "tests.webhooks.worker", str(self.path), url, str(REBOOTS)]
        self._process = subprocess.Popen(command, cwd=ROOT)

    def kill(self) -> None:
        """Send SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self.kills += 1

    def answer(self, count: int) -> ReceiverResponse:
        """Return the response to a message; kill the process before or after it if planned."""
        when = KILLS.get(count)
        if when == "before":
            self.kill()

        def raw(handler: BaseHTTPRequestHandler) -> None:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            handler.wfile.flush()
            if when == "soon":
                time.sleep(self._random.random() / 100)
            self.kill()

        return ReceiverResponse(raw=raw) if when in {"after", "soon"} else ReceiverResponse()


@pytest.mark.spec("E9")
def test_sigkill_loses_no_message(tmp_path: Path) -> None:
    """Over seven kills all messages arrive in order, and each kill repeats at most one."""
    service = KilledService(tmp_path / "fleet.db")
    with Receiver() as receiver:

        def answer(_: ReceivedRequest) -> ReceiverResponse:
            return service.answer(len(receiver.requests))

        receiver.answer = answer
        try:
            _run_until_delivered(service, receiver)
        finally:
            service.kill()
    assert receiver.ids == sorted(receiver.ids)
    assert sorted(set(receiver.ids)) == asyncio.run(_reported_lines(service.path))
    assert sum(first == second for first, second in pairwise(receiver.ids)) <= len(KILLS)
    assert all(map(verified, receiver.posts))


def _run_until_delivered(service: KilledService, receiver: Receiver) -> None:
    """Restart the process after each kill, until all kills and all messages are done."""
    service.start(receiver.url)
    restarts = 0

    def is_done() -> bool:
        nonlocal restarts
        if service.kills > restarts:
            restarts += 1
            service.start(receiver.url)
        return len(set(receiver.ids)) >= MESSAGES and restarts >= len(KILLS)

    wait_until(is_done, lambda: f"{len(set(receiver.ids))} messages arrived")


async def _reported_lines(path: Path) -> list[int]:
    store = SQLiteStore(path, reserved_bytes=4096)
    await store.open()
    try:
        entries = await store.journal(limit=1_000_000)
    finally:
        await store.close()
    return [entry.number for entry in entries if entry.line.fact.type in REPORTED]
