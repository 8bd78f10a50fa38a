"""Hooks that are requests to a server, which refuses, hangs or goes away."""

import http.client
import socket
import threading
import time
from collections.abc import Mapping

import pytest

from fairwarning.guest.agent import connections, work
from fairwarning.guest.agent.actions import StopHook
from fairwarning.guest.agent.config import HookKind, HookSettings, parse
from fairwarning.guest.agent.event_state import OUT_OF_TIME
from fairwarning.guest.agent.hooks import STOPPED
from fairwarning.guest.events import Phase
from tests.fixtures.receiver import Receiver, ReceiverResponse, in_turn
from tests.fixtures.waiting import LIMIT_SECONDS, on_this_machine, wait_until
from tests.guest.hook_harness import EVENT, SOON_SECONDS, hook_harness


def answering(status: int, headers: Mapping[str, str] | None = None) -> Receiver:
    """Return a server that sends this response to each request."""
    return Receiver(in_turn(ReceiverResponse(status, headers or {})))


def hanging() -> Receiver:
    """Return a server that sends no response."""
    receiver = Receiver()
    receiver.answer = lambda _: ReceiverResponse(raw=receiver.hang)
    return receiver


def posting(url: str) -> HookSettings:
    """Return a hook that sends a request."""
    return HookSettings("main", Phase.SCHEDULED, HookKind.URL, url=url)


@pytest.mark.spec("G4")
@pytest.mark.parametrize("status", [200, 202, 204])
def test_input_of_a_request(monkeypatch: pytest.MonkeyPatch, status: int) -> None:
    """It is a POST of the JSON that programs get; proxies are ignored."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with answering(status) as server, hook_harness() as harness:
        run = harness.run(posting(server.url))
        assert harness.failure() == ""
        (request,) = server.requests
    assert (request.method, request.path) == ("POST", "/hook?from=test")
    assert request.headers["content-type"] == "application/json"
    assert request.headers["fairwarning-event"] == EVENT.id
    assert request.json == work.describe(run, "vm-1")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://[::1]/x", ("::1", 80)),
        ("https://[::1]/x", ("::1", 443)),
        ("http://[::1]:8172/x", ("::1", 8172)),
        ("https://host/x", ("host", 443)),
    ],
)
def test_the_address_of_a_url(url: str, address: tuple[str, int]) -> None:
    """Without a port it is that of the scheme, for an IPv6 address too."""
    connection = connections.connect(url, 1.0)
    assert (connection.host, connection.port) == address


def test_credentials_of_a_url(caplog: pytest.LogCaptureFixture) -> None:
    """They are sent as a header, and never logged."""
    caplog.set_level("DEBUG")
    with answering(401) as server, hook_harness() as harness:
        url = f"http://me:s%65cret@127.0.0.1:{server.port}/a \u00fc"
        (hook,) = parse(f'[[hook]]\nname = "tell"\nphase = "scheduled"\nurl = "{url}"').hooks
        harness.run(hook)
        assert "401" in harness.failure()
        (request,) = server.requests
    assert request.path == "/a%20%C3%BC"
    assert request.headers["authorization"] == "Basic bWU6c2VjcmV0"
    assert "secret" not in caplog.text + repr(hook)
    assert "bWU6" not in caplog.text + repr(hook)


def test_a_request_is_retried_after_transient_failures(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that is down, overloaded or broken for a while gets the same request again."""
    monkeypatch.setattr(connections, "FIRST_PAUSE_SECONDS", 0.01)
    failures = [ReceiverResponse(500), ReceiverResponse(503)]
    failures.append(ReceiverResponse(429, {"Retry-After": "0"}))
    answers = in_turn(*failures, ReceiverResponse(200))
    with Receiver(answers) as server, hook_harness() as harness:
        harness.run(posting(server.url))
        assert harness.failure() == ""
        assert len(server.requests) == 4
        assert len({request.body for request in server.requests}) == 1


def test_a_request_without_a_response_is_retried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until there is one; its body does not matter."""
    monkeypatch.setattr(connections, "FIRST_PAUSE_SECONDS", 0.01)
    with socket.create_server(("127.0.0.1", 0)) as hangs_up, hook_harness() as harness:
        hangs_up.settimeout(LIMIT_SECONDS)
        harness.run(posting(f"http://127.0.0.1:{hangs_up.getsockname()[1]}"))
        for _ in range(2):
            hangs_up.accept()[0].close()
        with hangs_up.accept()[0] as process:
            process.settimeout(LIMIT_SECONDS)
            assert process.recv(2**16).startswith(b"POST / HTTP/1.1\r\n")
            process.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n")  # the rest is missing
            assert harness.failure() == ""


@pytest.mark.parametrize(
    ("status", "headers", "failed"),
    [
        (302, {"Location": "/elsewhere"}, "the response was 302 Found"),
        (308, {"Location": "/elsewhere"}, "the response was 308 Permanent Redirect"),
        (400, {}, "the response was 400 Bad Request"),
        (404, {}, "the response was 404 Not Found"),
    ],
)
def test_a_refused_request_fails(status: int, headers: dict[str, str], failed: str) -> None:
    """At once; a redirect counts as a refusal."""
    with answering(status, headers) as server, hook_harness() as harness:
        harness.run(posting(server.url))
        assert harness.failure() == failed
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("length", "body", "failed"),
    [
        (15, b"invalid_payload", ": invalid_payload"),
        (99, b"cut \xff off", ": cut \ufffd off"),
        (10**9, b"x" * 400, ": " + "x" * (300 - len("the response was 400 No: "))),
        (99, b"", ""),
    ],
)
def test_the_body_of_a_refusal_is_output(
    monkeypatch: pytest.MonkeyPatch, length: int, body: bytes, failed: str
) -> None:
    """As far as it arrives: it often says what is wrong."""
    monkeypatch.setattr(connections, "_BODY_SECONDS", 0.2 if not body else LIMIT_SECONDS)
    with socket.create_server(("127.0.0.1", 0)) as server, hook_harness() as harness:
        server.settimeout(LIMIT_SECONDS)
        harness.run(posting(f"http://127.0.0.1:{server.getsockname()[1]}"))
        with server.accept()[0] as process:
            process.recv(2**16)
            head = f"HTTP/1.1 400 No\r\nContent-Length: {length}\r\n\r\n"
            process.sendall(head.encode() + body)
            assert harness.failure() == f"the response was 400 No{failed}"


@pytest.mark.parametrize(
    "url", ["http://", "http:///x", "http://host:port/", "http://host/a b", "http://[::1/", "http://h/\u00fc"]
)  # fmt: skip
def test_an_invalid_url_fails_at_once(url: str) -> None:
    """There is nothing to retry."""
    with hook_harness() as harness:
        harness.run(posting(url))
        assert harness.failure().startswith("the URL is invalid: ")


def test_a_request_has_a_deadline() -> None:
    """Without a response, and with failures only."""
    with hanging() as silent, answering(500) as broken, hook_harness() as harness:
        began = time.monotonic()
        harness.run(posting(silent.url), seconds=5)
        harness.run(posting(broken.url), seconds=5)
        failures = {failed for *_, failed in harness.results()}
        assert failures == {
            OUT_OF_TIME,
            f"{OUT_OF_TIME}: the response was 500 Internal Server Error",
        }
        assert time.monotonic() - began < 5 + on_this_machine(SOON_SECONDS)


def test_no_request_is_sent_after_the_hook_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name server answers late."""
    connect, ended = http.client.HTTPConnection.connect, threading.Event()

    def late(connection: http.client.HTTPConnection) -> None:
        assert ended.wait(LIMIT_SECONDS)
        connect(connection)

    monkeypatch.setattr(http.client.HTTPConnection, "connect", late)
    with answering(200) as server, hook_harness() as harness:
        harness.run(posting(server.url), seconds=0.2)
        assert harness.failure().startswith(OUT_OF_TIME)
        ended.set()
        for thread in threading.enumerate():
            if thread.name.startswith("work of hook"):
                thread.join(LIMIT_SECONDS)
        assert server.requests == []


def test_a_request_can_be_stopped() -> None:
    """While it waits for a response, and while it waits for a retry."""
    with hanging() as silent, hook_harness() as harness:
        run = harness.run(posting(silent.url))
        wait_until(lambda: silent.posts)
        harness.hooks.stop(StopHook(EVENT.id, run.phase, "main"))
        assert harness.failure() == STOPPED
    with answering(429, {"Retry-After": "300"}) as busy, hook_harness() as harness:
        harness.run(posting(busy.url))
        harness.hooks.close()
        assert harness.failure().startswith(STOPPED)
