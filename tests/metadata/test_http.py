"""HTTP behaviour that real clients rely on (M20)."""

import pytest

from fairwarning.core.commands import AddMachines
from fairwarning.core.model import Machine
from fairwarning.service.documents import PublishedScope
from tests.fixtures.endpoint import (
    EVENTS,
    POLL_TARGET,
    EndpointHarness,
    approval,
    raw_request,
    read_all,
)
from tests.metadata.conftest import EMPTY

pytestmark = pytest.mark.spec("M20")


def _until_closed(endpoint: EndpointHarness, sent: bytes) -> bytes:
    """Send bytes and return everything the server sends until it closes the connection."""
    with endpoint.open("db_0") as client:
        client.sendall(sent)
        return read_all(client)


@pytest.mark.parametrize(
    "sent",
    [
        raw_request("/nowhere", "Connection: close"),
        raw_request(EVENTS, "Connection: close"),
        raw_request(POLL_TARGET, "Connection: close", "If-None-Match: *"),
        raw_request("/metadata/versions", "connection: CLOSE"),
        raw_request(POLL_TARGET, "Connection: close", "X-Forwarded-For: 1"),
        raw_request(POLL_TARGET, "Connection: close", method="PUT"),
    ],
)
def test_every_kind_of_response_closes(endpoint: EndpointHarness, sent: bytes) -> None:
    """Refusals, 304 and other responses send `Connection: close`, and close."""
    endpoint.make("db")
    head = _until_closed(endpoint, sent).partition(b"\r\n\r\n")[0].lower()
    assert b"connection: close" in head


@pytest.mark.parametrize("headers", [(), ("Connection: keep-alive",), ("Connection: close",)])
def test_http_1_0_works(endpoint: EndpointHarness, headers: tuple[str, ...]) -> None:
    """An HTTP/1.0 client gets a response with a length, then the connection closes."""
    endpoint.make("db")
    response = _until_closed(endpoint, raw_request(POLL_TARGET, *headers, http="1.0"))
    head, _, body = response.partition(b"\r\n\r\n")
    assert head.split(b" ")[1] == b"200"
    assert b"\r\nContent-Length: 37" in head
    assert b"transfer-encoding" not in head.lower()
    assert body == EMPTY


def test_an_approval_in_http_1_0(endpoint: EndpointHarness) -> None:
    """POST works as well; its response has an empty body of known length."""
    endpoint.make("db")
    endpoint.get("db_0")
    body = approval(endpoint.restart("db_0").id)
    head = raw_request(POLL_TARGET, f"Content-Length: {len(body)}", method="POST", http="1.0")
    response = _until_closed(endpoint, head + body.encode())
    assert response.split(b" ")[1] == b"200"
    assert response.endswith(b"\r\n\r\n")
    assert b"\r\nContent-Length: 0\r\n" in response


def test_the_order_of_resources_stays(endpoint: EndpointHarness) -> None:
    """An event keeps the order of its machines for as long as it is shown."""
    endpoint.make("db", 12)
    endpoint.get("db_0")
    chosen = [f"db_{n}" for n in (7, 11, 2, 10, 0)]
    event = endpoint.freeze(*chosen)
    orders = []
    for step in range(6):
        for version in ("2017-08-01", "2020-07-01"):
            (shown,) = endpoint.get(f"db_{step}", version).json["Events"]
            orders.append(shown["Resources"])
        if step == 1:
            endpoint.do(AddMachines(scope="db", machines=(Machine(name="a"), Machine(name="z"))))
        if step == 3:
            endpoint.approve("db_9", event.id)
    assert sorted(orders[0]) == sorted(chosen)
    assert all(order == orders[0] for order in orders)
    assert endpoint.get("db_0").json["Events"][0]["EventStatus"] == "Started"


def test_an_internal_failure_is_answered(
    endpoint: EndpointHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected exception gives 503 and a log line, and does not hang the connection."""
    endpoint.make("db")

    async def fail(scope: str) -> PublishedScope:
        raise ZeroDivisionError

    endpoint.fleet.poll = fail  # type: ignore[method-assign]
    response = endpoint.get("db_0")
    assert (response.status, response.headers["connection"]) == (503, "close")
    assert "metadata request failed" in caplog.text
