"""A crowd on the console or the ARM port gets one turn of the event loop each (IB7).

The endpoint answers all polls that have arrived in every turn, so a crowd of any size delays a poll
by one accepted connection, one read and one request at most.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from fairwarning.server.ports.connection import LimitedConnection
from fairwarning.server.ports.refusals import ConnectionCounter
from tests.hostile.ports import WAYS, PortHarness, Way
from tests.hostile.wire import Client, head

CROWD = 50
GET = head("GET", "/", "Host: localhost")

pytestmark = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)


class TurnCounter:
    """Counts the turns of a port's loop, and how often something happens in each."""

    def __init__(self, port: PortHarness) -> None:
        self._loop = port._loop
        self._turn = 0
        self.counts: dict[str, Counter[int]] = {}
        self.enabled = True

    def next_turn(self) -> None:
        """Count this turn and all that follow."""
        self._turn += 1
        if self.enabled:
            self._loop.call_soon(self.next_turn)

    def note(self, what: str) -> None:
        """Count it in this turn."""
        self.counts.setdefault(what, Counter())[self._turn] += 1

    def total(self, what: str) -> int:
        """Return how often it has happened."""
        return self.counts.get(what, Counter()).total()

    def counted(self, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function, noted whenever it is called."""

        def call(*words: Any) -> Any:  # noqa: ANN401  (whatever it takes and returns)
            self.note(what)
            return function(*words)

        return call


class TurnHarness(PortHarness):
    """A port whose application notes its requests."""

    turns: TurnCounter

    async def _application(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.turns.note("requests")
        await super()._application(scope, receive, send)


@contextmanager
def counting(port: TurnHarness, monkeypatch: pytest.MonkeyPatch) -> Iterator[TurnCounter]:
    """Count what happens on the loop of a port."""
    port.turns = turns = TurnCounter(port)
    reads, accepted = LimitedConnection.data_received, ConnectionCounter.add
    monkeypatch.setattr(LimitedConnection, "data_received", turns.counted("reads", reads))
    monkeypatch.setattr(ConnectionCounter, "add", turns.counted("accepted", accepted))
    port.call(turns.next_turn)
    yield turns
    turns.enabled = False


@contextmanager
def standing_still(port: PortHarness) -> Iterator[None]:
    """Let clients do something that the port notices all at once."""
    go_on = threading.Event()
    port._loop.call_soon_threadsafe(go_on.wait)
    try:
        yield
    finally:
        go_on.set()


@pytest.fixture
def port(way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TurnHarness]:
    """A port whose turns are counted."""
    with TurnHarness(way, tmp_path) as port, counting(port, monkeypatch):
        yield port


@pytest.fixture
def crowd(port: TurnHarness) -> Iterator[list[Client]]:
    """Many clients that are connected."""
    with ExitStack() as stack:
        clients = [stack.enter_context(port.connect()) for _ in range(CROWD)]
        port.wait_until(lambda: len(port.connections) == CROWD)
        yield clients


@pytest.mark.parametrize("requests", [1, 3])
def test_requests_take_turns(port: TurnHarness, crowd: list[Client], requests: int) -> None:
    """One read and one request in a turn, also of clients that send several requests at once."""
    with standing_still(port):
        for client in crowd:
            client.send(GET * requests)
    for client in crowd:
        assert [client.reply().status for _ in range(requests)] == [200] * requests
    assert port.turns.counts["requests"].total() == CROWD * requests
    assert {what: max(counts.values()) for what, counts in port.turns.counts.items()} == {
        "accepted": 1,
        "reads": 1,
        "requests": 1,
    }


def test_connections_are_accepted_in_turns(port: TurnHarness) -> None:
    """One in a turn, even if many wait."""
    with port.connect() as first:
        assert first.request(GET).status == 200
    port.turns.counts.clear()
    with ExitStack() as stack:
        with standing_still(port):
            for _ in range(CROWD):
                stack.enter_context(port.open()).sendall(GET)
        port.wait_until(lambda: port.turns.total("accepted") == CROWD)
    assert max(port.turns.counts["accepted"].values()) == 1


def test_late_connections_end_in_turns(
    port: TurnHarness, crowd: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in a turn, even if the time of many is up."""
    end = port.turns.counted("ended", LimitedConnection._end_late)
    monkeypatch.setattr(LimitedConnection, "_end_late", end)

    def be_late() -> None:
        for connection in port.connections:
            connection._deadline = 0.0

    port.call(be_late)
    port.wait_until(lambda: port.turns.total("ended") == CROWD)
    assert max(port.turns.counts["ended"].values()) == 1
    assert all(client.next() is None for client in crowd)
