"""Wrong paths, methods, sizes and rates (M17)."""

import errno
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from fairwarning.metadata.socket_events import EpollEvents
from fairwarning.service.config.settings import MetadataSettings
from tests.fixtures.endpoint import POLL_TARGET, EndpointHarness, approval, poll
from tests.metadata.conftest import INSTANCE, METADATA

pytestmark = pytest.mark.spec("M17")

KIB = 1024


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
@pytest.mark.parametrize(
    ("target", "allowed"),
    [(POLL_TARGET, {"GET", "POST"}), (INSTANCE, {"GET"}), ("/metadata/versions", {"GET"})],
)
def test_a_wrong_method(
    endpoint: EndpointHarness, method: str, target: str, allowed: set[str]
) -> None:
    """405; `Allow` lists the allowed methods."""
    endpoint.make("db")
    response = endpoint.send_from("db_0", method, target, METADATA)
    assert response.status == 405
    assert set(response.headers["allow"].replace(" ", "").split(",")) == allowed
    assert method in response.error


@pytest.mark.parametrize("size", [64 * KIB + 1, 200 * KIB, 4 * 1024 * KIB])
def test_client_that_sends_it_all_reads_the_refusal(endpoint: EndpointHarness, size: int) -> None:
    """A client that sends the whole body before reading, as most do, gets the 413 and no reset."""
    endpoint.make("db")
    for _ in range(5):
        response = endpoint.send_from("db_0", "POST", POLL_TARGET, METADATA, b" " * size)
        assert response.status == 413
        assert response.error


def test_a_body_at_the_limit(endpoint: EndpointHarness) -> None:
    """64 KiB are read and processed."""
    endpoint.make("db")
    endpoint.get("db_0")
    body = approval(endpoint.restart("db_0").id)
    response = endpoint.send_from("db_0", "POST", POLL_TARGET, METADATA, body.ljust(64 * KIB))
    assert response.status == 200


@pytest.fixture
def limited() -> Iterator[EndpointHarness]:
    """Yield an endpoint with Azure's rate limit, whose seconds pass only when told."""
    with EndpointHarness(MetadataSettings(requests_per_second=5)) as endpoint:
        endpoint.stop_ticking()
        yield endpoint


def _statuses(endpoint: EndpointHarness, machine: str, times: int) -> list[int]:
    connection = endpoint.client(machine)
    return [poll(connection).status for _ in range(times)]


def test_a_burst_then_the_rate(limited: EndpointHarness) -> None:
    """Ten at once, then five more each second, up to ten; further requests get 429.

    A busy machine, even of the same scope, takes nothing from others.
    """
    limited.make("db", 2)
    assert _statuses(limited, "db_0", 12) == [200] * 10 + [429] * 2
    for _ in range(3):
        limited.tick()
        assert _statuses(limited, "db_0", 7) == [200] * 5 + [429] * 2
    limited.tick(60)
    assert _statuses(limited, "db_0", 12) == [200] * 10 + [429] * 2
    assert _statuses(limited, "db_1", 10) == [200] * 10


def test_response_of_the_rate_limit(limited: EndpointHarness) -> None:
    """429 with `Retry-After` in whole seconds and a text; then the current document is read."""
    limited.make("db")
    _statuses(limited, "db_0", 11)
    event = limited.restart("db_0")
    connection = limited.client("db_0")
    for _ in range(2):
        response = poll(connection)
        assert response.status == 429
        assert int(response.headers["retry-after"]) >= 1
        assert response.error
    limited.tick(int(response.headers["retry-after"]))
    response = poll(connection)
    assert [shown["EventId"] for shown in response.json["Events"]] == [event.id]


def test_a_connection_whose_deadline_cannot_be_checked(limited: EndpointHarness) -> None:
    """It is closed, and the machines' limits are refilled as if nothing had happened (IB4)."""
    limited.make("db", 2)
    assert _statuses(limited, "db_0", 11)[-1] == 429
    with limited.open("db_1") as client:
        limited.wait_until(lambda: len(limited.connections) == 2)

        def fail() -> None:
            raise KeyError("bug")

        for connection in limited.connections:
            connection.tick = fail  # type: ignore[method-assign]
        limited.tick()
        assert client.recv(1) == b""
    assert _statuses(limited, "db_0", 5) == [200] * 5


def test_a_connection_that_cannot_be_watched(
    endpoint: EndpointHarness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The system limits what an epoll may watch; it is closed, and not open for ever (IB6)."""
    endpoint.make("db")

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(EpollEvents, "watch", fail)
        with endpoint.open("db_0") as client, suppress(ConnectionResetError):
            assert client.recv(1) == b""
    assert "cannot watch a connection: No space left on device; closing it" in caplog.text
    assert endpoint.get("db_0").status == 200


def test_all_of_a_machines_requests_count(limited: EndpointHarness) -> None:
    """Polls, 304 responses, approvals and instance metadata count, on any number of connections."""
    limited.make("db")
    for _ in range(2):
        assert limited.get("db_0").status == 200
        assert limited.get("db_0", **{"If-None-Match": '"1"'}).status == 304
        assert limited.send_from("db_0", "GET", INSTANCE, METADATA).status == 200
        assert limited.approve("db_0", "x").status == 400
    event = limited.restart("db_0")
    assert limited.approve("db_0", event.id).status == 200
    assert limited.get("db_0").status == 200
    for method, target in (("GET", POLL_TARGET), ("GET", INSTANCE), ("POST", POLL_TARGET)):
        body = "{}" if method == "POST" else None
        response = limited.send_from("db_0", method, target, METADATA, body)
        assert response.status == 429
