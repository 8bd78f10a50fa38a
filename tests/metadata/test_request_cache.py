"""The request cache: cached requests get the same responses as new ones (M1, M16, M22)."""

import pytest

from fairwarning.metadata.reader import CACHE_REQUESTS
from tests.fixtures.endpoint import EVENTS, POLL_TARGET, EndpointHarness, raw_request
from tests.metadata.conftest import NAME


def _send(endpoint: EndpointHarness, machine: str, *sent: bytes) -> list[bytes]:
    """Send requests on one connection, each after the previous response; return the responses."""
    responses = []
    with endpoint.open(machine) as client:
        for request in sent:
            client.sendall(request)
            responses.append(client.recv(65536))
    return responses


def _cached_requests(endpoint: EndpointHarness) -> int:
    return endpoint.call(lambda: len(endpoint.server.request_cache.requests))


@pytest.mark.spec("M1")
@pytest.mark.parametrize(
    "sent",
    [
        raw_request(POLL_TARGET),
        raw_request(f"{EVENTS}?api-version=2017-03-01"),
        raw_request(POLL_TARGET, "Connection: keep-alive", "User-Agent: x"),
        raw_request(POLL_TARGET, 'If-None-Match: "2"'),
        raw_request(POLL_TARGET, 'If-None-Match: "1"'),
        raw_request(NAME),
        raw_request("/metadata/versions"),
    ],
)
def test_cached_response_equals_the_first(endpoint: EndpointHarness, sent: bytes) -> None:
    """Responses are identical byte for byte, on the same connection and on another."""
    endpoint.make("db")
    endpoint.get("db_0")
    endpoint.restart("db_0")
    before = _cached_requests(endpoint)
    responses = _send(endpoint, "db_0", sent, sent, sent) + _send(endpoint, "db_0", sent)
    assert _cached_requests(endpoint) == before + 1
    assert len(set(responses)) == 1


@pytest.mark.spec("M16", "M22")
def test_identical_bytes_of_two_machines(endpoint: EndpointHarness) -> None:
    """Each machine gets its own document: the cache holds nothing about the caller."""
    endpoint.make("db")
    endpoint.make("web", 2)
    for machine in ("db_0", "web_0"):
        endpoint.get(machine)
    events = {"db_0": endpoint.restart("db_0").id, "web_0": endpoint.restart("web_1").id}
    sent = raw_request(POLL_TARGET)
    for _ in range(3):
        for machine, event in events.items():
            (response,) = _send(endpoint, machine, sent)
            assert event.encode() in response
            assert sum(other.encode() in response for other in events.values()) == 1
    for machine in ("db_0", "web_0", "web_1", "db_0"):
        (response,) = _send(endpoint, machine, raw_request(NAME))
        assert response.endswith(b"\r\n\r\n" + machine.encode())


@pytest.mark.spec("M1", "M16")
def test_cache_is_bounded(endpoint: EndpointHarness) -> None:
    """The cache has a limit; responses stay correct once it is full."""
    endpoint.make("db")
    endpoint.make("web")
    endpoint.get("db_0"), endpoint.get("web_0")
    event = endpoint.restart("db_0").id.encode()
    many = [raw_request(f"{POLL_TARGET}&n={n}") for n in range(CACHE_REQUESTS + 50)]
    responses = _send(endpoint, "db_0", *many, *many[:10], *many[-10:])
    assert 0 < _cached_requests(endpoint) <= CACHE_REQUESTS == 1024
    assert len(set(responses)) == 1
    assert event in responses[0]
    assert b'"Events":[]' in _send(endpoint, "web_0", many[-1])[0]
