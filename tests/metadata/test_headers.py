"""Required and forbidden request headers (M4, M5)."""

import pytest

from tests.fixtures.endpoint import EVENTS, POLL_TARGET, EndpointHarness, approval, raw_request
from tests.fixtures.http import Response
from tests.metadata.conftest import INSTANCE, METADATA, VERSIONS


def _status(endpoint: EndpointHarness) -> str:
    (event,) = endpoint.get("db_0").json["Events"]
    status: str = event["EventStatus"]
    return status


def _post(endpoint: EndpointHarness, version: str, headers: dict[str, str]) -> Response:
    """Create a machine with an event, and approve it."""
    endpoint.make("db")
    endpoint.get("db_0")
    body = approval(endpoint.restart("db_0").id)
    return endpoint.send_from("db_0", "POST", f"{EVENTS}?api-version={version}", headers, body)


@pytest.mark.spec("M4", "M19")
@pytest.mark.parametrize(
    "target",
    [*(f"{EVENTS}?api-version={version}" for version in VERSIONS), INSTANCE, "/metadata/versions"],
)
def test_every_get_needs_the_metadata_header(endpoint: EndpointHarness, target: str) -> None:
    """Without the header a GET is refused at every version, and enables nothing."""
    endpoint.make("db")
    response = endpoint.send_from("db_0", "GET", target, {})
    assert response.status == 400
    assert "Metadata: true" in response.error
    assert not endpoint.scope("db").enabled


@pytest.mark.spec("M4", "M17")
@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/latest/meta-data/", 404),
        ("POST", "/metadata?api-version=2017-03-01", 404),
        ("DELETE", POLL_TARGET, 405),
        ("GET", f"{EVENTS}?api-version=2031-01-01", 404),
    ],
)
def test_the_header_is_checked_first(
    endpoint: EndpointHarness, method: str, target: str, status: int
) -> None:
    """Public clients recognise the service by this refusal, whatever path they ask for."""
    endpoint.make("db")
    response = endpoint.send_from("db_0", method, target, {})
    assert response.status == 400
    assert "Metadata: true" in response.error
    assert endpoint.send_from("db_0", method, target, METADATA).status == status


@pytest.mark.spec("M4")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_post_needs_it_but_for_the_first_version(endpoint: EndpointHarness, version: str) -> None:
    """The C# sample of 2017-03-01 posts without the header; later versions refuse that."""
    response = _post(endpoint, version, {"Content-Type": "application/json"})
    if version == "2017-03-01":
        assert (response.status, response.body) == (200, b"")
        assert _status(endpoint) == "Started"
    else:
        assert response.status == 400
        assert "Metadata: true" in response.error
        assert _status(endpoint) == "Scheduled"


@pytest.mark.spec("M4", "M5", "E2")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Origin", "https://evil.example"),
        ("origin", "null"),
        ("Sec-Fetch-Site", "cross-site"),
        ("SEC-FETCH-MODE", "no-cors"),
        ("Content-Type", "text/plain"),
        ("content-type", "Text/Plain; charset=UTF-8"),
        ("Content-Type", "multipart/form-data; boundary=x"),
        ("X-Forwarded-For", "10.0.0.1"),
    ],
)
def test_a_web_page_cannot_approve_without_the_header(
    endpoint: EndpointHarness, name: str, value: str
) -> None:
    """Where no Metadata header is needed, what only browsers and proxies send is refused."""
    response = _post(endpoint, "2017-03-01", {name: value})
    assert response.status == 400
    assert name.lower() in response.error
    assert _status(endpoint) == "Scheduled"


@pytest.mark.spec("M4", "M12")
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json", "Accept-Language": "nl"},
        {"Metadata": "true", "Origin": "https://portal.example", "Content-Type": "text/plain"},
    ],
    ids=["none", "curl", "C#", "with Metadata"],
)
def test_a_program_can_approve_at_the_first_version(
    endpoint: EndpointHarness, headers: dict[str, str]
) -> None:
    """With the types that programs send, and with anything if it has the Metadata header."""
    assert _post(endpoint, "2017-03-01", headers).status == 200
    assert _status(endpoint) == "Started"


@pytest.mark.spec("M5")
@pytest.mark.parametrize(
    ("method", "target", "http"),
    [
        ("GET", "/", "1.1"),
        ("GET", f"{EVENTS}?api-version=2031-01-01", "1.1"),
        ("GET", EVENTS, "1.1"),
        ("DELETE", POLL_TARGET, "1.1"),
        ("GET", POLL_TARGET, "1.0"),
        ("GET", f"{EVENTS}?api-version=2017-03-01", "1.1"),
        ("GET", "/metadata/versions", "1.1"),
    ],
)
def test_forwarding_is_checked_first(
    endpoint: EndpointHarness, method: str, target: str, http: str
) -> None:
    """This check precedes all others, so a proxy learns nothing else."""
    endpoint.make("db")
    sent = raw_request(target, "X-Forwarded-For: 10.0.0.1", method=method, http=http)
    response = endpoint.raw("db_0", sent)
    assert response.startswith(b"HTTP/1.1 400 ")
    assert b"x-forwarded-for" in response
