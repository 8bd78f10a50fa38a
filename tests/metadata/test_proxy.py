"""An endpoint as the HTTP proxy of a program that has no network of its own."""

import socket
from http.client import HTTPConnection

import pytest

from fairwarning.metadata.callers import for_machine
from tests.fixtures.endpoint import POLL_TARGET, EndpointHarness
from tests.fixtures.http import Response, send
from tests.fixtures.waiting import LIMIT_SECONDS
from tests.metadata.conftest import NAME

pytestmark = pytest.mark.spec("O12")

AZURE = "http://169.254.169.254"


def proxy_of(endpoint: EndpointHarness, machine: str) -> HTTPConnection:
    """Connect to a listener of a machine that is also a proxy."""
    port = endpoint.listen(for_machine("db", machine), proxy=True)
    return endpoint.keep(HTTPConnection("127.0.0.1", port, LIMIT_SECONDS))


def ask(connection: HTTPConnection, url: str, host: str = "169.254.169.254") -> Response:
    """Send a request as a client sends it to its proxy."""
    headers = {"Metadata": "true", "Host": host, "Proxy-Connection": "keep-alive"}
    return send(connection, "GET", url, headers)


@pytest.mark.parametrize("base", [AZURE, f"{AZURE}:80", "HTTP://169.254.169.254", ""])
def test_the_proxy_answers_as_the_machine(endpoint: EndpointHarness, base: str) -> None:
    """By the URL of Azure's endpoint, or by a path; again and again on one connection."""
    endpoint.make("db", 2)
    connection = proxy_of(endpoint, "db_1")
    for _ in range(3):
        assert ask(connection, base + NAME).text == "db_1"
        assert ask(connection, base + POLL_TARGET).json == {"DocumentIncarnation": 1, "Events": []}


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com/",
        f"http://169.254.169.253{POLL_TARGET}",
        f"http://169.254.169.254.example.com{POLL_TARGET}",
        f"http://169.254.169.254:8080{POLL_TARGET}",
        f"http://me@169.254.169.254{POLL_TARGET}",
        f"https://169.254.169.254{POLL_TARGET}",
        f"http://168.63.129.16{POLL_TARGET}",
    ],
)
def test_the_proxy_refuses_other_hosts(endpoint: EndpointHarness, url: str) -> None:
    """403 with the only URL that it answers for, and what to do; nothing is forwarded."""
    endpoint.make("db", 1)
    connection = proxy_of(endpoint, "db_0")
    answer = ask(connection, url, host=url.split("/")[2])
    assert answer.status == 403
    assert "answers for http://169.254.169.254 only" in answer.error
    assert "no_proxy" in answer.error
    assert ask(connection, AZURE + NAME).text == "db_0"


def test_the_proxy_makes_no_tunnel(endpoint: EndpointHarness) -> None:
    """A client that asks for one gets the same text."""
    endpoint.make("db", 1)
    port = endpoint.listen(for_machine("db", "db_0"), proxy=True)
    with socket.create_connection(("127.0.0.1", port), LIMIT_SECONDS) as client:
        client.sendall(b"CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n")
        answer = client.makefile("rb").read()
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"answers for http://169.254.169.254 only" in answer


def test_a_listener_that_is_no_proxy_refuses_urls(endpoint: EndpointHarness) -> None:
    """Also after a proxy has accepted the same bytes."""
    endpoint.make("db", 1)
    assert ask(proxy_of(endpoint, "db_0"), AZURE + POLL_TARGET).status == 200
    port = endpoint.listen(for_machine("db", "db_0"))
    connection = endpoint.keep(HTTPConnection("127.0.0.1", port, LIMIT_SECONDS))
    assert ask(connection, POLL_TARGET).status == 200
    for _ in range(2):
        answer = ask(connection, AZURE + POLL_TARGET)
        assert answer.status == 400
        assert "the target must be a path" in answer.error
