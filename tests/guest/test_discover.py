"""Finding the endpoint: configured, from the environment, Azure's address, or by DHCP.

No test contacts the link-local address.
"""

import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning import AsyncScheduledEvents, Refused, ScheduledEvents, Unavailable
from fairwarning.guest import discover
from fairwarning.guest.endpoint import LINK_LOCAL, VARIABLE, EndpointAddress, endpoint
from tests.fixtures.waiting import LIMIT_SECONDS
from tests.guest.double import Double
from tests.guest.test_dhcp import AZURE, END, option, reply

pytestmark = pytest.mark.spec("G2")

ELSEWHERE = "http://192.0.2.7"  # an unused address


@pytest.fixture(autouse=True)
def _no_endpoint_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove an endpoint from the environment of the test run."""
    monkeypatch.delenv(VARIABLE, raising=False)


# --- Syntax of an endpoint ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("http://host", EndpointAddress("host")),
        ("http://host/", EndpointAddress("host")),
        ("HTTP://Host:8080", EndpointAddress("host", 8080)),
        ("127.1.0.1:8080", EndpointAddress("127.1.0.1", 8080)),
        ("localhost", EndpointAddress("localhost")),
        ("http://[::1]:81", EndpointAddress("::1", 81)),
        ("unix:/run/x.sock", EndpointAddress(socket="/run/x.sock")),
        ("unix:///run/x.sock", EndpointAddress(socket="/run/x.sock")),
        ("unix:x.sock", EndpointAddress(socket="x.sock")),
        ("unix:/run/a%20b", EndpointAddress(socket="/run/a b")),
    ],
)
def test_valid_endpoints(text: str, meant: EndpointAddress) -> None:
    """A host and a port, or a Unix socket."""
    assert endpoint(text) == meant
    assert endpoint(str(meant)) == meant


@pytest.mark.parametrize(
    "text",
    [
        "https://host",
        "ftp://host",
        "http://",
        "unix:",
        "unix://",
        "http://host:99999",
        "http://host:x",
        "http://[::1",
        "http://host?x=1",
        "http://host/some/where",
        "//",
        " ",
    ],
)
def test_invalid_endpoints(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client refuses it when created, with the valid forms and the source of the value."""
    for make in (endpoint, ScheduledEvents, AsyncScheduledEvents):
        with pytest.raises(Refused, match="http://HOST"):
            make(text)
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(Refused, match=VARIABLE):
        endpoint()


@given(st.text(min_size=1, max_size=40).filter(lambda text: "\0" not in text))
def test_any_text(text: str) -> None:
    """It is an endpoint or it is refused; an endpoint round-trips through its string."""
    try:
        address = endpoint(f"unix:{text}" if text.startswith("/") else text)
    except Refused:
        return
    assert endpoint(str(address)) == address


# --- Precedence -----------------------------------------------------------------------------------


def test_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """A configured endpoint precedes the environment, which precedes Azure's address."""
    assert endpoint() == EndpointAddress("169.254.169.254", 80)
    assert endpoint("") == endpoint(None)
    monkeypatch.setenv(VARIABLE, "http://named")
    assert endpoint().host == "named"
    assert endpoint("http://given").host == "given"
    monkeypatch.setenv(VARIABLE, "")
    assert str(endpoint()) == LINK_LOCAL


# --- Discovery ------------------------------------------------------------------------------------


def _never(*_: object, **__: object) -> Any:  # noqa: ANN401  (stands for anything)
    raise AssertionError("unexpected request")


def test_a_configured_endpoint_is_not_probed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may start later."""
    monkeypatch.setattr(discover, "answers", _never)
    monkeypatch.setattr(discover, "by_dhcp", _never)
    assert discover.discover(ELSEWHERE) == ELSEWHERE
    assert discover.discover("unix:/nowhere") == "unix:/nowhere"
    monkeypatch.setenv(VARIABLE, "192.0.2.8:81")
    assert discover.discover() == "http://192.0.2.8:81"
    assert discover.discover(ELSEWHERE) == ELSEWHERE


def test_azures_address_is_probed_before_dhcp(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine outside a virtual network finds its endpoint by DHCP."""
    monkeypatch.setattr(discover, "answers", lambda url: url == LINK_LOCAL)
    monkeypatch.setattr(discover, "by_dhcp", _never)
    assert discover.discover() == LINK_LOCAL
    monkeypatch.setattr(discover, "answers", lambda _: False)
    monkeypatch.setattr(discover, "by_dhcp", lambda: ELSEWHERE)
    assert discover.discover() == ELSEWHERE


def _denied() -> str:
    raise PermissionError("port 68 is not yours")


def test_the_error_lists_all_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """It has each attempt, its failure, and what to do."""
    monkeypatch.setattr(discover, "answers", lambda _: False)
    monkeypatch.setattr(discover, "by_dhcp", lambda: None)
    with pytest.raises(Unavailable, match=f"{LINK_LOCAL}.*option 245.*{VARIABLE}"):
        discover.discover()
    monkeypatch.setattr(discover, "by_dhcp", _denied)
    with pytest.raises(Unavailable, match="port 68 is not yours"):
        discover.discover()


def test_probing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any HTTP response counts; proxies are ignored."""
    with Double() as azure, Double() as proxy:
        monkeypatch.setenv("http_proxy", proxy.url)
        assert discover.answers(azure.url)
        azure.failures.append(b"220 mail.example ESMTP\r\n")
        assert not discover.answers(azure.url)
        azure.failures.append(None)
        assert not discover.answers(azure.url)
        assert proxy.connections == 0
    assert not discover.answers(azure.url)


# --- DHCP on loopback -----------------------------------------------------------------------------


class RedirectedSocket(socket.socket):
    """A socket whose broadcasts stay on loopback."""

    def sendto(self, data: bytes, address: tuple[str, int]) -> int:  # type: ignore[override]
        assert address[0] == "255.255.255.255"
        return super().sendto(data, ("127.0.0.1", address[1]))


@contextmanager
def serving(monkeypatch: pytest.MonkeyPatch, *replies: Any) -> Iterator[list[bytes]]:  # noqa: ANN401
    """Run a DHCP server with these replies; yield the requests that it got."""
    names = {name: getattr(socket, name) for name in dir(socket) if name[:3] in {"AF_", "SO_"}}
    fake = SimpleNamespace(
        **names,
        socket=RedirectedSocket,
        timeout=TimeoutError,
        SOCK_DGRAM=socket.SOCK_DGRAM,
        SOL_SOCKET=socket.SOL_SOCKET,
    )
    requests: list[bytes] = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(LIMIT_SECONDS)

        def serve() -> None:
            request, client = server.recvfrom(4096)
            requests.append(request)
            for reply in replies:
                server.sendto(reply(request), client)

        monkeypatch.setattr(discover, "socket", fake)
        monkeypatch.setattr(discover, "CLIENT_PORT", 0)
        monkeypatch.setattr(discover, "SERVER_PORT", server.getsockname()[1])
        thread = threading.Thread(target=serve, name="dhcp", daemon=True)
        thread.start()
        yield requests
        thread.join(LIMIT_SECONDS)


def _offer(request: bytes) -> bytes:
    return reply(request, option(53, b"\x02"), option(245, AZURE), END)


def test_a_dhcp_server_sends_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """The request has the machine's MAC address and a new transaction; the result is a URL."""
    transactions = set()
    for _ in range(2):
        with serving(monkeypatch, _offer) as requests:
            assert discover.by_dhcp() == "http://168.63.129.16"
        assert requests[0][28:34] == uuid.getnode().to_bytes(6)
        transactions.add(requests[0][4:8])
    assert len(transactions) == 2


def test_other_packets_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies to others, garbage, and offers without an endpoint do not end the search."""

    def to_another(request: bytes) -> bytes:
        return _offer(request[:4] + bytes(4) + request[8:]).replace(AZURE, bytes(4))

    def without(request: bytes) -> bytes:
        return reply(request, option(53, b"\x02"), END)

    def garbage(_: bytes) -> bytes:
        return b"\xff" * 400

    def nothing(_: bytes) -> bytes:
        return b""

    with serving(monkeypatch, garbage, nothing, to_another, without, _offer):
        assert discover.by_dhcp() == "http://168.63.129.16"


def test_no_dhcp_server_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is None after some seconds."""
    monkeypatch.setattr(discover, "_OFFER_SECONDS", 0.05)
    with serving(monkeypatch):
        assert discover.by_dhcp() is None
