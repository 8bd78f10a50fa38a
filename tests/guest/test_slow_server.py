"""A timeout is for the whole request: a server that sends a byte now and then cannot extend it."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from fairwarning import ScheduledEvents, Unavailable
from fairwarning.guest import conversation, discover, http_message
from tests.fixtures.waiting import LIMIT_SECONDS
from tests.guest.clients import BOTH, Client, in_background, result_of

pytestmark = pytest.mark.spec("G1")

HEAD = b"HTTP/1.1 200 OK\r\n"
DRIPS = {
    "status": (b"HTTP/1.1 ", b"0"),
    "headers": (HEAD, b"X: x\r\n"),
    "interim": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "length": (HEAD + b"Content-Length: 100000\r\n\r\n", b" "),
    "chunks": (HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "no length": (HEAD + b"\r\n", b" "),
}
DRIPPING = pytest.mark.parametrize("drip", DRIPS.values(), ids=DRIPS)


@pytest.fixture(autouse=True)
def _short_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up soon after the deadline, to keep tests fast."""
    monkeypatch.setattr(conversation, "_GRACE_SECONDS", 0.2)
    monkeypatch.setattr(discover, "_PROBE_SECONDS", 0.2)


@contextmanager
def dripping(first: bytes, then: bytes, pause: float = 0.05) -> Iterator[str]:
    """Run a server that never completes a response; yield its URL."""
    stopped = threading.Event()

    def serve(connection: socket.socket) -> None:
        end = time.monotonic() + 2 * LIMIT_SECONDS
        with connection, suppress(OSError):  # until the client has disconnected
            connection.recv(65536)
            connection.sendall(first)
            while not stopped.wait(pause) and time.monotonic() < end:
                connection.sendall(then)

    def accept() -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=accept, daemon=True)
        accepting.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            stopped.set()
            listener.shutdown(socket.SHUT_RDWR)
            accepting.join(LIMIT_SECONDS)


LENGTH, CHUNKED = HEAD + b"Content-Length: ", HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
INVALID = {
    "short status": b"HTTP/1.1 20\r\n\r\n",
    "long status": b"HTTP/1.1 2000 OK\r\n\r\n",
    "another protocol": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "a terabyte": LENGTH + b"1000000000000\r\n\r\n",
    "a gigabyte": LENGTH + b"999999999\r\n\r\n",
    "many digits": LENGTH + b"9" * 10_000 + b"\r\n\r\n",
    "negative length": LENGTH + b"-1\r\n\r\n",
    "no length": LENGTH + b"much\r\n\r\n",
    "two lengths": LENGTH + b"5\r\nContent-Length: 6\r\n\r\n",
    "large chunk": CHUNKED + b"FFFFFFFFFFFF\r\n",
    "large second chunk": CHUNKED + b"1\r\n{\r\n7FFFFFFF\r\n",
    "negative chunk": CHUNKED + b"-1\r\n",
    "longer chunk": CHUNKED + b"1\r\n{}\r\n",
    "compressed": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
}


@BOTH
@pytest.mark.parametrize("sent", INVALID.values(), ids=INVALID)
def test_an_invalid_response_is_not_awaited(guest: type[Client], sent: bytes) -> None:
    """It ends the request at once, before anything is allocated, although no timeout is near."""
    with dripping(sent, b"", pause=LIMIT_SECONDS) as url, guest(url, patience=0) as client:
        waiting = in_background(client.document)
        with pytest.raises(Unavailable, match=r"NoDocument.* response"):
            result_of(waiting)


@BOTH
@DRIPPING
def test_a_response_that_never_ends(guest: type[Client], drip: tuple[bytes, bytes]) -> None:
    """The wait ends with an error; each byte in time does not make the response in time."""
    with dripping(*drip) as url, guest(url) as client:
        waiting = in_background(lambda: client.wait(0.1))
        with pytest.raises(Unavailable, match="NoDocument"):
            result_of(waiting)


def test_a_probe_ends_too() -> None:
    """An agent that looks for its endpoint is not held either."""
    with dripping(*DRIPS["length"]) as url:
        assert not result_of(in_background(lambda: discover.answers(url)))


def test_a_response_without_end_is_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given up when it is larger than any document."""
    monkeypatch.setattr(http_message, "RESPONSE_BYTES", 100_000)
    with (
        dripping(HEAD + b"\r\n", b"x" * 50_000, pause=0) as url,
        ScheduledEvents(url, patience=0) as client,
        pytest.raises(Unavailable) as caught,
    ):
        client.document()
    assert "the response is too large" in caught.value.message
