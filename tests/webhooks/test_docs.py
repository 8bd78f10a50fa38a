"""The examples of docs/webhooks.md work as shown."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import IO

from fairwarning.service.webhooks.targets import AllowedTargets
from tests.fixtures.http import free_port, is_listening, local_url
from tests.fixtures.receiver import SECRET, Receiver
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until_async
from tests.webhooks.webhook_fleet import subscribed, webhook_fleet

PAGE = Path(__file__).parents[2] / "docs" / "webhooks.md"


def blocks(language: str) -> list[str]:
    """The page's code blocks in this language."""
    text = PAGE.read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@contextmanager
def receiver(folder: Path, secret: str) -> Iterator[tuple[int, "Queue[str]"]]:
    """Run the page's receiver as a process; yield its port and the lines it prints."""
    (code,) = blocks("python")
    program = folder / "receiver.py"
    program.write_text(code)
    port = free_port()
    lines_printed: Queue[str] = Queue()
    with subprocess.Popen(
        [sys.executable, str(program), str(port)],
        env={**os.environ, "WEBHOOK_SECRET": secret},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout
        reader = Thread(target=_copy_lines, args=(process.stdout, lines_printed))
        reader.start()
        try:
            yield port, lines_printed
        finally:
            process.kill()
            reader.join()


def _copy_lines(lines: IO[str], lines_printed: "Queue[str]") -> None:
    for line in lines:
        lines_printed.put(line)


async def test_the_receiver_accepts_signed_messages(tmp_path: Path) -> None:
    """The receiver checks signatures and prints each message once."""
    with receiver(tmp_path, SECRET) as (port, lines_printed):
        await wait_until_async(lambda: is_listening(port))
        async with webhook_fleet() as fleet:
            await fleet.machine()
            await fleet.webhooks.create("pager", local_url(port), secret=SECRET)
            assert await fleet.webhooks.test("pager") == 204
            event = await fleet.restart()
            lines = [
                await asyncio.to_thread(lines_printed.get, timeout=LIMIT_SECONDS) for _ in range(2)
            ]
    assert lines == [
        "com.fairwarning.ping pager\n",
        f"com.fairwarning.event.scheduled vm/{event}\n",
    ]


async def test_the_receiver_refuses_a_wrong_signature(tmp_path: Path) -> None:
    """With another secret, the receiver answers 401 and prints nothing."""
    with receiver(tmp_path, "another-secret-of-theirs") as (port, lines_printed):
        await wait_until_async(lambda: is_listening(port))
        async with webhook_fleet() as fleet:
            await fleet.webhooks.create("pager", local_url(port), secret=SECRET)
            assert await fleet.webhooks.test("pager") == 401
    assert lines_printed.empty()


async def test_messages_look_as_shown() -> None:
    """Messages have the documented members, in the same order."""
    (shown,) = map(json.loads, blocks("json"))
    with Receiver() as receiver:
        async with subscribed(receiver) as fleet:
            await fleet.restart()
            await wait_until_async(lambda: receiver.posts)
    sent = receiver.posts[0].json
    assert (list(sent), list(sent["data"])) == (list(shown), list(shown["data"]))


def test_the_documented_entries_are_valid() -> None:
    """Every entry of the page's table is valid."""
    rows = re.findall(
        r"^\| (`[^|]+) \|", PAGE.read_text("utf-8").partition("| allows |")[2], re.MULTILINE
    )
    entries = [entry for row in rows[:4] for entry in re.findall(r"`([^`]+)`", row)]
    assert len(entries) == 5
    AllowedTargets(entries)
