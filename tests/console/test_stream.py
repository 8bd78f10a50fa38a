import asyncio
import json
import signal
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fairwarning.core.cascade import JournalLine
from fairwarning.core.decision import Fact, FactType
from fairwarning.core.model import Scope
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch
from tests.console.stream_client import StreamClient, StreamMessage, open_stream
from tests.fixtures.console import HOST, ConsoleHarness
from tests.fixtures.http import asgi_request, asgi_scope
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS

SOON_SECONDS = 3.0  # what is told at once is there by then


def heard(
    console: ConsoleHarness, listener: StreamClient, count: int, within: float = LIMIT_SECONDS
) -> list[StreamMessage]:
    """So many messages, or a failure if they do not come."""
    return console.run(asyncio.wait_for(listener.take(count), within))


def newest(console: ConsoleHarness) -> int:
    """The number of the journal's last line."""
    number: int = console.ok("GET", "/api/journal?newest=true&limit=1")["lines"][0]["number"]
    return number


def written(start: int, count: int) -> Batch:
    """Lines about nothing in particular."""
    told = (Fact(FactType.STARTED, why=str(n)) for n in range(start, start + count))
    return Batch(1.0, lines=[JournalLine(1.0, "x", (Scope, "s"), fact) for fact in told])


@pytest.mark.spec("C4")
def test_from_now_on() -> None:
    """Each new line as the journal has it, in order, and none of before."""
    with ConsoleHarness() as console:
        console.created("machines", name="vm")
        before = newest(console)
        listener = open_stream(console)
        console.poll("vm")
        console.act("vm", "restart", key="r")
        console.advance(1000)
        lines = console.ok("GET", f"/api/journal?after={before}")["lines"]
        said = heard(console, listener, len(lines) + 1)
        assert [one.data for one in said if one.kind == "line"] == lines
        assert [one.number for one in said if one.kind == "line"] == [n["number"] for n in lines]
        assert [one.kind for one in said].count("clock") == 1
        console.run(listener.disconnect())


@pytest.mark.spec("C4")
def test_after_a_line() -> None:
    """`after`, or the last one that a browser says it has seen, which counts for more."""
    with ConsoleHarness() as console:
        console.created("machines", name="vm", count=5)
        lines = console.ok("GET", "/api/journal")["lines"]
        for after, last, first in (("0", "", 0), ("3", "", 3), ("", "4", 4), ("1", "5", 5)):
            listener = open_stream(console, after, last)
            said = heard(console, listener, len(lines) - first)
            assert [one.data for one in said] == lines[first:]
            console.run(listener.disconnect())


@pytest.mark.parametrize("store", ["memory", "sqlite"])
def test_nothing_is_lost_while_much_is_written(store: str, tmp_path: Path) -> None:
    """Five thousand lines, written in pieces while two listen from different places."""
    kept = SQLiteStore(tmp_path / "fleet.db", reserved_bytes=4096) if store == "sqlite" else None
    with ConsoleHarness(store=kept) as console:
        console.created("machines", name="vm")
        start = newest(console)
        early, late = open_stream(console), open_stream(console, after=str(start))

        async def write() -> None:
            for number in range(0, 5000, 250):
                await console._store.commit(written(number, 250))
                console.fleet._tell_readers()
                await asyncio.sleep(0)

        console.run(write())
        for listener in (early, late):
            said = heard(console, listener, 5000)
            assert [one.number for one in said] == list(range(start + 1, start + 5001))
            assert [one.data["why"] for one in said] == [str(n) for n in range(5000)]
            console.run(listener.disconnect())


def test_the_clock_is_told_when_somebody_moves_it() -> None:
    """Advanced, set running, frozen; by nobody, nothing."""
    with ConsoleHarness() as console:
        console.created("machines", name="vm")
        listener = open_stream(console)
        told = []
        for change in ({"advance": 3600}, {"rate": 10}, {"rate": 0}):
            console.ok("POST", "/api/clock", change)
            (said,) = heard(console, listener, 1)
            assert said.kind == "clock"
            assert said.number == -1
            told.append(said.data)
        assert told[0] == {"now": "2026-01-09T13:00:00Z", "virtual": True, "rate": 0.0}
        assert [one["rate"] for one in told] == [0.0, 10.0, 0.0]
        console.created("machines", name="other")
        assert {one.kind for one in heard(console, listener, 3)} == {"line"}
        console.run(listener.disconnect())


@pytest.mark.spec("C4")
def test_many_listen_and_go_away() -> None:
    """All hear the same, and whoever leaves leaves nothing behind: waiting, reading, or stuck."""
    with ConsoleHarness() as console:
        console.created("machines", name="vm")
        standing = len(console.fleet.readers)
        start = newest(console)
        listeners = [open_stream(console) for _ in range(50)]
        assert len(console.fleet.readers) == standing + 50
        console.created("machines", name="other")
        count = newest(console) - start
        first = heard(console, listeners[0], count)
        assert all(heard(console, one, count) == first for one in listeners[1:25])
        for listener in listeners:  # half of them have not read all
            console.run(listener.disconnect())
        console.wait_until(lambda: len(console.fleet.readers) == standing)


def test_who_does_not_read_is_let_go_as_well() -> None:
    """A client that hangs up while it is being written to."""
    with ConsoleHarness() as console:
        console.created("machines", name="vm", count=100)
        standing = len(console.fleet.readers)
        stuck = asyncio.Event()

        async def begin() -> asyncio.Task[None]:
            headers = [("Host", HOST), ("Authorization", f"Bearer {console.token}")]
            asked = asgi_scope("GET", "/api/stream?after=0", headers)

            async def receive() -> dict[str, object]:
                await stuck.wait()
                return {"type": "http.disconnect"}

            async def send(message: object) -> None:
                await asyncio.sleep(LIMIT_SECONDS * 10)

            return asyncio.create_task(console.app(asked, receive, send))

        task = console.run(begin())
        console.call(stuck.set)
        console.run(asyncio.wait_for(asyncio.wait([task]), LIMIT_SECONDS))
        console.wait_until(lambda: len(console.fleet.readers) == standing)


@pytest.mark.parametrize("target", ["?after=x", "?after=-1", "?after=1e3", "?after=" + "9" * 19])
def test_where_to_begin_is_a_number(target: str) -> None:
    """Anything else is refused before the stream begins."""
    with ConsoleHarness() as console:
        assert console.api("GET", f"/api/stream{target}").error_code == "BadQuery"
        assert not console.fleet.readers[1:]


def assert_next_line_is_told(last: str) -> None:
    """A client that names this last event is told what happens after it connects."""
    with ConsoleHarness() as console:
        console.created("machines", name="vm")
        listener = open_stream(console, last=last)
        console.created("machines", name="other")
        assert heard(console, listener, 1, SOON_SECONDS)[0].kind == "line"
        console.run(listener.disconnect())


@pytest.mark.parametrize("last", ["x", "-1", "²"])
def test_a_last_event_that_never_was(last: str) -> None:
    """A browser sends what it was once given; what is no number of ours begins with now."""
    assert_next_line_is_told(last)


@pytest.mark.parametrize(
    "last",
    ["500", "9" * 18, "9" * 30, "9" * 5000],
)
def test_a_service_that_began_anew(last: str) -> None:
    """Lines beyond the newest are of a fleet that is gone: what comes now is told."""
    assert_next_line_is_told(last)


def test_streams_end_with_the_service() -> None:
    """Those that are open, and those that come late."""
    with ConsoleHarness() as console:
        listeners = [open_stream(console) for _ in range(5)]
        console.call(console.closing.begin)
        for listener in listeners:
            console.run(asyncio.wait_for(asyncio.wait([listener.task]), LIMIT_SECONDS))
        assert console.api("GET", "/api/stream").body.startswith(b"retry: 1000\n")


@pytest.mark.spec("C4")
def test_a_reader_may_listen_and_a_stranger_may_not() -> None:
    """As for everything that changes nothing."""
    with ConsoleHarness() as console:
        headers = [("Host", HOST)]
        reply = console.run(asgi_request(console.app, asgi_scope("GET", "/api/stream", headers)))
        assert (reply.status, reply.error_code) == (401, "Unauthorized")
        assert console.fleet.readers == console.fleet.readers[:1]


@pytest.mark.spec("O2", "C4")
def test_the_program_stops_at_once_with_streams_open(tmp_path: Path) -> None:
    """Ctrl-C ends it in less than two seconds; each listener sees the end, not an error."""
    with ServiceProcess(tmp_path / "data", "--memory", "--clock", "virtual") as service:
        where = urlsplit(service.ready["console"])
        connections = []
        for _ in range(5):
            connection = HTTPConnection(where.hostname or "", where.port, timeout=LIMIT_SECONDS)
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
