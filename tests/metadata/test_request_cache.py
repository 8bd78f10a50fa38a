"""The request cache: cached requests get the same responses as new ones (M1, M16, M22)."""

import pytest

from fairwarning.metadata.request_cache import CACHE_REQUESTS
from tests.fixtures.endpoint import EVENTS, EndpointHarness, approval, raw_request, read_all

POLL = f"{EVENTS}?api-version=2020-07-01"
NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"


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
        raw_request(POLL),
        raw_request(f"{EVENTS}?api-version=2017-03-01"),
        raw_request(POLL, "Connection: keep-alive", "User-Agent: x"),
        raw_request(POLL, 'If-None-Match: "2"'),
        raw_request(POLL, 'If-None-Match: "1"'),
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


@pytest.mark.spec("M1", "M20")
def test_connection_close_of_cached_requests(endpoint: EndpointHarness) -> None:
    """A request with `Connection: close` closes every time; a request without it never does."""
    endpoint.make("db")
    plain = _send(endpoint, "db_0", raw_request(POLL), raw_request(POLL))
    responses = []
    for _ in range(3):
        with endpoint.open("db_0") as client:
            client.sendall(raw_request(POLL, "Connection: close"))
            responses.append(read_all(client))
    assert len(set(responses)) == 1
    assert b"\r\nConnection: close\r\n" in responses[0]
    assert _send(endpoint, "db_0", raw_request(POLL), raw_request(POLL)) == plain
    assert b"Connection" not in plain[0]


@pytest.mark.spec("M16", "M22")
def test_identical_bytes_of_two_machines(endpoint: EndpointHarness) -> None:
    """Each machine gets its own document: the cache holds nothing about the caller."""
    endpoint.make("db")
    endpoint.make("web", 2)
    for machine in ("db_0", "web_0"):
        endpoint.get(machine)
    events = {"db_0": endpoint.restart("db_0").id, "web_0": endpoint.restart("web_1").id}
    sent = raw_request(POLL)
    for _ in range(3):
        for machine, event in events.items():
            (response,) = _send(endpoint, machine, sent)
            assert event.encode() in response
            assert sum(other.encode() in response for other in events.values()) == 1
    for machine in ("db_0", "web_0", "web_1", "db_0"):
        (response,) = _send(endpoint, machine, raw_request(NAME))
        assert response.endswith(b"\r\n\r\n" + machine.encode())


@pytest.mark.spec("M22")
def test_cached_request_from_an_unknown_caller(endpoint: EndpointHarness) -> None:
    """The same bytes from an address without a machine get 404."""
    endpoint.make("db")
    sent = raw_request(POLL)
    _send(endpoint, "db_0", sent, sent)
    endpoint._addresses["nobody"] = "127.0.0.1"
    assert all(
        response.startswith(b"HTTP/1.1 404 ") for response in _send(endpoint, "nobody", sent, sent)
    )


@pytest.mark.spec("M1", "M16")
def test_cache_is_bounded(endpoint: EndpointHarness) -> None:
    """The cache has a limit; responses stay correct once it is full."""
    endpoint.make("db")
    endpoint.make("web")
    endpoint.get("db_0"), endpoint.get("web_0")
    event = endpoint.restart("db_0").id.encode()
    many = [raw_request(f"{POLL}&n={n}") for n in range(CACHE_REQUESTS + 50)]
    responses = _send(endpoint, "db_0", *many, *many[:10], *many[-10:])
    assert 0 < _cached_requests(endpoint) <= CACHE_REQUESTS == 1024
    assert len(set(responses)) == 1
    assert event in responses[0]
    assert b'"Events":[]' in _send(endpoint, "web_0", many[-1])[0]


@pytest.mark.spec("M3", "M4", "M5", "M17")
@pytest.mark.parametrize(
    "sent",
    [
        raw_request(EVENTS),
        raw_request(f"{EVENTS}?api-version=2031-01-01"),
        raw_request(POLL, "X-Forwarded-For: 10.0.0.1"),
        raw_request(POLL).replace(b"Metadata: true", b"Metadata: false"),
        raw_request(POLL, method="PUT"),
        raw_request(POLL, method="POST"),
        raw_request("/nowhere"),
        raw_request(POLL, "Host: 127.0.0.1"),
        raw_request(f"{POLL}&wait=x"),
    ],
)
def test_refused_request_is_never_cached(endpoint: EndpointHarness, sent: bytes) -> None:
    """It goes through every check each time, and is refused each time."""
    endpoint.make("db")
    endpoint.get("db_0")
    before = _cached_requests(endpoint)
    responses = _send(endpoint, "db_0", sent, sent, raw_request(POLL), sent)
    assert {responses[n].split(b" ")[1][:1] for n in (0, 1, 3)} == {b"4"}
    assert responses[2].startswith(b"HTTP/1.1 200 ")
    assert _cached_requests(endpoint) == before + 1


@pytest.mark.spec("M12")
def test_approval_is_never_cached(endpoint: EndpointHarness) -> None:
    """An approval takes effect each time it is sent."""
    endpoint.make("db")
    endpoint.get("db_0")
    before = _cached_requests(endpoint)
    for _ in range(2):
        body = approval(endpoint.restart("db_0").id)
        head = raw_request(POLL, f"Content-Length: {len(body)}", method="POST")
        (response,) = _send(endpoint, "db_0", head + body.encode())
        assert response.startswith(b"HTTP/1.1 200 ")
        assert endpoint.get("db_0").json["Events"][0]["EventStatus"] == "Started"
        endpoint.advance(60)
    assert _cached_requests(endpoint) == before


@pytest.mark.spec("M20")
def test_partial_requests_are_not_cached(endpoint: EndpointHarness) -> None:
    """Half a request, or one and a half, is not cached as a request."""
    endpoint.make("db")
    endpoint.get("db_0")
    before = _cached_requests(endpoint)
    sent = raw_request(POLL)
    with endpoint.open("db_0") as client:
        for _ in range(2):
            client.sendall(sent + sent[:20])
            assert client.recv(65536).count(b"HTTP/1.1 200 ") == 1
            client.sendall(sent[20:])
            assert client.recv(65536).count(b"HTTP/1.1 200 ") == 1
    assert _cached_requests(endpoint) == before
