"""kill -9 while it sends: nothing is lost, the order stays, and only what was under way repeats."""

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
from tests.webhooks.webhook_fleet import TOLD

REBOOTS = 15
MESSAGES = 4 * REBOOTS
KILLS = {2: "before", 9: "after", 10: "before", 23: "soon", 31: "soon", 44: "after", 58: "soon"}
"""After how many messages it is killed: before one is answered, after, or a moment later."""


class Killed:
    """A service process that dies when it is told to, and is started again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.deaths = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._chance = random.Random(11)

    def start(self, url: str) -> None:
        """Another life."""
        command = [sys.executable, "-m", "tests.webhooks.worker", str(self.path), url, str(REBOOTS)]
        self._process = subprocess.Popen(command, cwd=ROOT)

    def kill(self) -> None:
        """As by kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()
        self.deaths += 1

    def answer(self, count: int) -> ReceiverResponse:
        """What a message gets, and what then becomes of who sent it."""
        when = KILLS.get(count)
        if when == "before":
            self.kill()

        def raw(handler: BaseHTTPRequestHandler) -> None:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            handler.wfile.flush()
            if when == "soon":
                time.sleep(self._chance.random() / 100)
            self.kill()

        return ReceiverResponse(raw=raw) if when in {"after", "soon"} else ReceiverResponse()


@pytest.mark.spec("E9")
def test_nothing_is_lost_by_kill_9(tmp_path: Path) -> None:
    """Seven lives: all messages arrive in order, and each death repeats one of them at most."""
    service = Killed(tmp_path / "fleet.db")
    with Receiver() as receiver:

        def answer(_: ReceivedRequest) -> ReceiverResponse:
            return service.answer(len(receiver.requests))

        receiver.answer = answer
        try:
            _live(service, receiver)
        finally:
            service.kill()
    assert receiver.ids == sorted(receiver.ids)
    assert sorted(set(receiver.ids)) == asyncio.run(_told(service.path))
    assert sum(one == other for one, other in pairwise(receiver.ids)) <= len(KILLS)
    assert all(map(verified, receiver.posts))


def _live(service: Killed, receiver: Receiver) -> None:
    """One life after another, until all has arrived and it has died as often as it shall."""
    service.start(receiver.url)
    lives = 0

    def is_over() -> bool:
        nonlocal lives
        if service.deaths > lives:
            lives += 1
            service.start(receiver.url)
        return len(set(receiver.ids)) >= MESSAGES and lives >= len(KILLS)

    wait_until(is_over, lambda: f"{len(set(receiver.ids))} messages arrived")


async def _told(path: Path) -> list[int]:
    store = SQLiteStore(path, reserved_bytes=4096)
    await store.open()
    try:
        lines = await store.journal(limit=1_000_000)
    finally:
        await store.close()
    return [one.number for one in lines if one.line.fact.type in TOLD]
