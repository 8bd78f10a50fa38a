"""The agent's health server."""

import errno
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest

from fairwarning.core.errors import Refused
from fairwarning.guest.agent import health as module
from fairwarning.guest.agent.health import HealthServer
from tests.fixtures.http import fetch, local_url
from tests.fixtures.waiting import LIMIT_SECONDS

pytestmark = pytest.mark.spec("G4")


@contextmanager
def health(problem: Callable[[], str] = str, metrics: Callable[[], str] = str) -> Iterator[int]:
    """Run a server; yield its port."""
    server = HealthServer("127.0.0.1:0", problem, metrics)
    try:
        yield server.port
    finally:
        server.close()


@pytest.mark.parametrize(
    ("path", "status", "kind", "body"),
    [
        ("/healthz", 200, "application/json", '{"status": "ok"}'),
        ("/healthz?x=1", 200, "application/json", '{"status": "ok"}'),
        ("//[", 404, "application/json", '{"error": "use /healthz or /metrics"}'),
        ("/metrics", 200, "text/plain; version=0.0.4; charset=utf-8", 'a_total{hook="\u00fc"} 3\n'),
    ],
)
def test_answers(path: str, status: int, kind: str, body: str) -> None:
    """The metrics are in Prometheus's text format, the others are JSON."""
    with health(metrics=lambda: 'a_total{hook="\u00fc"} 3\n') as port:
        response = fetch(local_url(port, path))
    assert (response.status, response.headers["content-type"]) == (status, kind)
    assert response.body.decode() == body


def test_a_silent_client_does_not_block_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others are answered meanwhile; the number of connections, threads and their time is bound."""
    with health() as port, ExitStack() as stack:
        threads = threading.active_count()
        for _ in range(1_000):
            client = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        assert fetch(local_url(port, "/healthz")).status == 200
        assert threading.active_count() == threads
        monkeypatch.setattr(module, "CONNECTION_SECONDS", 0.5)
        slow = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        with suppress(OSError):
            for _ in range(round(LIMIT_SECONDS / 0.1)):
                slow.sendall(b"G")
                time.sleep(0.1)
            pytest.fail("a client may send byte by byte for ever")
        assert fetch(local_url(port, "/healthz")).status == 200
        assert client.fileno() >= 0


def test_a_client_that_does_not_read() -> None:
    """It delays no other, however long the answer is."""
    with (
        health(metrics=lambda: "x" * (64 << 20)) as port,
        socket.create_connection(("127.0.0.1", port)) as client,
    ):
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert client.recv(1)
        assert fetch(local_url(port, "/healthz")).status == 200


@pytest.mark.parametrize("request_", [b"", b"\0\xff", b"POST /healthz HTTP/1.1\r\n\r\n", b"GET"])
def test_other_requests(request_: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    """They get 405, and a client that leaves ends nothing; neither is logged."""
    with health() as port:
        with socket.create_connection(("127.0.0.1", port)) as client:
            client.sendall(request_)
            client.shutdown(socket.SHUT_WR)
            with client.makefile("rb") as answer:
                assert answer.readline() == b"HTTP/1.1 405 Method Not Allowed\r\n"
        assert fetch(local_url(port, "/healthz")).status == 200
    assert capfd.readouterr() == ("", "")


def test_a_connection_that_cannot_be_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is closed, and the next one is answered: the only thread goes on."""
    failures = [OSError(errno.ENOSPC, "no watch is free")]

    class Selector(selectors.DefaultSelector):
        def register(self, *arguments: Any) -> selectors.SelectorKey:  # noqa: ANN401  (as above it)
            if self.get_map() and failures:  # the listener is the first
                raise failures.pop()
            return super().register(*arguments)

    monkeypatch.setattr(selectors, "DefaultSelector", Selector)
    with health() as port:
        with socket.create_connection(("127.0.0.1", port), LIMIT_SECONDS) as client:
            assert client.recv(1) == b""
        assert fetch(local_url(port, "/healthz")).status == 200


def test_a_server_that_waits_for_its_port_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, not at the next attempt."""
    monkeypatch.setattr(module, "_RETRY_SECONDS", 2 * LIMIT_SECONDS)
    with socket.create_server(("127.0.0.1", 0)) as other:
        server = HealthServer(f"127.0.0.1:{other.getsockname()[1]}", str, str)
        server.close()


@pytest.mark.parametrize("listen", ["192.0.2.1:8173", "no-such-host.invalid:8173"])
def test_an_address_that_this_machine_does_not_have(listen: str) -> None:
    """It is refused, as waiting would not help."""
    with pytest.raises(Refused, match=f"cannot listen on {listen}"):
        HealthServer(listen, str, str)


def test_a_host_may_be_ipv6() -> None:
    """In brackets, as in URLs."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this system has no IPv6")
    server = HealthServer("[::1]:0", str, str)
    server.close()
