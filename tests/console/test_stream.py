import asyncio
import json
import signal
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from starlette.types import Message, Receive, Send

from fairwarning.core.cascade import JournalLine
from fairwarning.core.decision import Fact, FactType
from fairwarning.core.model import Scope
from fairwarning.service.tokens import TokenUse
from fairwarning.store.store import Batch
from tests.console.conftest import each_store
from tests.console.stream_client import StreamClient, StreamMessage, open_stream
from tests.fixtures.console import ConsoleHarness
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS, on_this_machine

SOON_SECONDS = 3.0  # a limit for messages that are sent at once


def receive(
    console: ConsoleHarness, listener: StreamClient, count: int, within: float = LIMIT_SECONDS
) -> list[StreamMessage]:
    """Return the next `count` messages; fail if they do not arrive in time."""
    return console.run(asyncio.wait_for(listener.take(count), within))


def newest(console: ConsoleHarness) -> int:
    """Return the number of the last journal line."""
    number: int = console.ok("GET", "/api/journal?newest=true&limit=1")["lines"][0]["number"]
    return number


def batch(start: int, count: int) -> Batch:
    """Return a batch of arbitrary journal lines."""
    facts = (Fact(FactType.STARTED, detail=str(n)) for n in range(start, start + count))
    return Batch(1.0, lines=[JournalLine(1.0, "x", (Scope, "s"), fact) for fact in facts])


@pytest.mark.spec("C4")
def test_new_lines(console: ConsoleHarness) -> None:
    """Without `after`, a stream sends every new journal line in order, and no earlier line."""
    console.created("machines", name="vm")
    before = newest(console)
    listener = open_stream(console)
    console.poll("vm")
    console.act("vm", "restart", key="r")
    console.advance(1000)
    lines = console.ok("GET", f"/api/journal?after={before}")["lines"]
    messages = receive(console, listener, len(lines) + 1)
    assert [message.data for message in messages if message.kind == "line"] == lines
    numbers = [message.number for message in messages if message.kind == "line"]
    assert numbers == [line["number"] for line in lines]
    assert [message.kind for message in messages].count("clock") == 1
    console.run(listener.disconnect())


@pytest.mark.spec("C4")
def test_after_a_line(console: ConsoleHarness) -> None:
    """A stream starts after `after` or Last-Event-ID; Last-Event-ID takes precedence."""
    console.created("machines", name="vm", count=5)
    lines = console.ok("GET", "/api/journal")["lines"]
    for after, last, first in (("0", "", 0), ("3", "", 3), ("", "4", 4), ("1", "5", 5)):
        listener = open_stream(console, after, last)
        messages = receive(console, listener, len(lines) - first)
        assert [message.data for message in messages] == lines[first:]
        console.run(listener.disconnect())


@each_store
def test_no_line_is_lost_under_load(console: ConsoleHarness) -> None:
    """Two streams with different starts get all 5000 lines that are written meanwhile."""
    console.created("machines", name="vm")
    start = newest(console)
    early, late = open_stream(console), open_stream(console, after=str(start))

    async def write() -> None:
        for number in range(0, 5000, 250):
            await console._store.commit(batch(number, 250))
            console.fleet.publisher.notify_readers()
            await asyncio.sleep(0)

    console.run(write())
    for listener in (early, late):
        messages = receive(console, listener, 5000)
        assert [message.number for message in messages] == list(range(start + 1, start + 5001))
        assert [message.data["detail"] for message in messages] == [str(n) for n in range(5000)]
        console.run(listener.disconnect())


def test_changes_of_the_clock_are_sent(console: ConsoleHarness) -> None:
    """When it is advanced, run or stopped, and only then."""
    console.created("machines", name="vm")
    listener = open_stream(console)
    clocks = []
    for change in ({"advance_seconds": 3600}, {"rate": 10}, {"rate": 0}):
        console.ok("POST", "/api/clock", change)
        (message,) = receive(console, listener, 1)
        assert message.kind == "clock"
        assert message.number == -1
        clocks.append(message.data)
    assert clocks[0]["now"] == "2026-01-09T13:00:00Z"
    assert [clock["rate"] for clock in clocks] == [0.0, 10.0, 0.0]
    console.created("machines", name="other")
    assert {message.kind for message in receive(console, listener, 3)} == {"line"}
    console.run(listener.disconnect())


@pytest.mark.spec("C4")
def test_many_streams_open_and_close(console: ConsoleHarness) -> None:
    """All get the same lines; a closed stream leaves no reader behind, even with unread lines."""
    console.created("machines", name="vm")
    readers_before = len(console.fleet.publisher.readers)
    start = newest(console)
    listeners = [open_stream(console) for _ in range(50)]
    assert len(console.fleet.publisher.readers) == readers_before + 50
    console.created("machines", name="other")
    count = newest(console) - start
    first = receive(console, listeners[0], count)
    assert all(receive(console, listener, count) == first for listener in listeners[1:25])
    for listener in listeners:  # half of them have unread lines
        console.run(listener.disconnect())
    console.wait_until(lambda: len(console.fleet.publisher.readers) == readers_before)


def begin_stream(console: ConsoleHarness, receive: Receive, send: Send) -> asyncio.Future[None]:
    """Open a stream from the first line on, for a client that these functions are."""

    async def begin() -> asyncio.Future[None]:
        scope = console.api_scope("GET", "/api/stream?after=0")
        return asyncio.ensure_future(console.app(scope, receive, send))

    return console.run(begin())


def test_a_client_that_does_not_read_can_disconnect(console: ConsoleHarness) -> None:
    """A client disconnects during a write, and its reader is removed."""
    console.created("machines", name="vm", count=100)
    readers_before = len(console.fleet.publisher.readers)
    hang_up = asyncio.Event()

    async def receive_message() -> Message:
        await hang_up.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        await asyncio.sleep(LIMIT_SECONDS * 10)

    task = begin_stream(console, receive_message, send)
    console.call(hang_up.set)
    console.run(asyncio.wait_for(asyncio.wait([task]), LIMIT_SECONDS))
    console.wait_until(lambda: len(console.fleet.publisher.readers) == readers_before)


@pytest.mark.parametrize("last", ["x", "-1", "²", "500", "9" * 18, "9" * 30, "9" * 5000])
def test_a_last_event_id_that_is_not_in_the_journal(console: ConsoleHarness, last: str) -> None:
    """An invalid one, or one of an earlier fleet: the stream starts with the next new line."""
    console.created("machines", name="vm")
    listener = open_stream(console, last=last)
    console.created("machines", name="other")
    assert receive(console, listener, 1, on_this_machine(SOON_SECONDS))[0].kind == "line"
    console.run(listener.disconnect())


def test_streams_end_with_the_service(console: ConsoleHarness) -> None:
    """Open streams end; a stream opened during shutdown ends at once."""
    listeners = [open_stream(console) for _ in range(5)]
    console.call(console.closing.begin)
    for listener in listeners:
        console.run(asyncio.wait_for(asyncio.wait([listener.task]), LIMIT_SECONDS))
    assert console.api("GET", "/api/stream").body.startswith(b"retry: 1000\n")


@pytest.mark.spec("C7")
def test_a_slow_client_gets_no_line_after_its_token_is_revoked(console: ConsoleHarness) -> None:
    """Lines that were read from the journal before are not sent either."""
    console.created("machines", name="vm", count=100)
    sent: list[Message] = []
    reads = asyncio.Event()

    async def send(message: Message) -> None:
        sent.append(message)
        if b"event: line" in message.get("body", b""):
            await reads.wait()

    async def receive_message() -> Message:
        return await asyncio.Future()

    task = begin_stream(console, receive_message, send)
    console.wait_until(lambda: len(sent) == 3)  # the head, the opening and a line
    claims = console.tokens.read(console.token, TokenUse.API)
    console.run(console.issued_tokens.revoke(claims, actor="test"))
    console.call(reads.set)
    console.run(asyncio.wait_for(asyncio.wait([task]), LIMIT_SECONDS))
    assert [message["body"] for message in sent[3:]] == [b""]


@pytest.mark.spec("O2", "C4")
def test_the_program_stops_at_once_with_open_streams(tmp_path: Path) -> None:
    """Ctrl-C stops it; each client sees the end of the stream, not an error."""
    with ServiceProcess(tmp_path / "data", "--memory", "--clock", "virtual") as service:
        url = urlsplit(service.ready["console"])
        connections = []
        for _ in range(5):
            connection = HTTPConnection(url.hostname or "", url.port, timeout=LIMIT_SECONDS)
            headers = {"Authorization": f"Bearer {service.ready['token']}"}
            connection.request("GET", "/api/stream", headers=headers)
            response = connection.getresponse()
            assert response.status == 200
            assert response.headers["content-type"].startswith("text/event-stream")
            assert response.readline() == b"retry: 1000\n"
            connections.append((connection, response))
        assert service.api("POST", "/api/clock", {"rate": 5}).status == 200
        response = connections[0][1]
        lines = [response.readline() for _ in range(4)]
        assert lines[-2] == b"event: clock\n"
        assert json.loads(lines[-1].removeprefix(b"data: "))["rate"] == 5
        service.process.send_signal(signal.SIGINT)
        for connection, response in connections:
            response.read()  # raises IncompleteRead if the stream is cut off
            connection.close()
        service.process.wait(LIMIT_SECONDS)
        assert service.process.returncode == 0
