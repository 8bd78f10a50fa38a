"""What docs/webhooks.md shows is what happens."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread
from typing import IO

from fairwarning.service.webhooks.targets import Targets
from tests.fixtures.waiting import run_async
from tests.webhooks.rig import SECRET, Receiver, town, until

PAGE = Path(__file__).parents[2] / "docs" / "webhooks.md"


def blocks(language: str) -> list[str]:
    """Those of the page in this language."""
    text = PAGE.read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@contextmanager
def receiver(folder: Path, secret: str) -> Iterator[tuple[str, "Queue[str]"]]:
    """The page's receiver as a process: its url and the lines it prints."""
    (code,) = blocks("python")
    program = folder / "receiver.py"
    program.write_text(code)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    said: Queue[str] = Queue()
    with subprocess.Popen(
        [sys.executable, str(program), str(port)],
        env={**os.environ, "WEBHOOK_SECRET": secret},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout
        reader = Thread(target=_pass_on, args=(process.stdout, said))
        reader.start()
        try:
            yield f"http://127.0.0.1:{port}/", said
        finally:
            process.kill()
            reader.join()


def _pass_on(lines: IO[str], said: "Queue[str]") -> None:
    for line in lines:
        said.put(line)


def _answers(url: str) -> bool:
    port = int(url.rstrip("/").rpartition(":")[2])
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@run_async
async def test_the_receiver_takes_what_is_genuine(tmp_path: Path) -> None:
    """It agrees to the handshake, checks signatures and prints each message once."""
    with receiver(tmp_path, SECRET) as (url, said):
        await until(lambda: _answers(url))
        async with town() as place:
            await place.machine()
            await place.webhooks.create("pager", url, secret=SECRET)
            assert await place.webhooks.test("pager") == 204
            event = await place.restart()
            lines = [await asyncio.to_thread(said.get, timeout=10) for _ in range(2)]
    assert lines == [
        "com.fairwarning.ping pager\n",
        f"com.fairwarning.event.scheduled vm/{event}\n",
    ]


@run_async
async def test_the_receiver_refuses_what_is_not(tmp_path: Path) -> None:
    """Another secret: 401, and nothing is printed."""
    with receiver(tmp_path, "another-secret-of-theirs") as (url, said):
        await until(lambda: _answers(url))
        async with town() as place:
            await place.webhooks.create("pager", url, secret=SECRET)
            assert await place.webhooks.test("pager") == 401
    assert said.empty()


@run_async
async def test_messages_look_as_shown() -> None:
    """The same members in the same order, in both forms."""
    shown, shown_array = map(json.loads, blocks("json"))
    with Receiver() as first, Receiver() as second:
        async with town() as place:
            await place.machine()
            await place.create(first, "first")
            await place.create(second, "second", form="eventgrid")
            await place.restart()
            await until(lambda: first.posts and second.posts)
    sent = first.posts[0].json
    assert (list(sent), list(sent["data"])) == (list(shown), list(shown["data"]))
    assert list(second.posts[0].json[0]) == list(shown_array[0])


def test_the_entries_shown_can_be_allowed() -> None:
    """Each of them, as it stands in the table."""
    rows = re.findall(
        r"^\| (`[^|]+) \|", PAGE.read_text("utf-8").partition("| allows |")[2], re.MULTILINE
    )
    entries = [entry for row in rows[:4] for entry in re.findall(r"`([^`]+)`", row)]
    assert len(entries) == 5
    Targets(entries)
