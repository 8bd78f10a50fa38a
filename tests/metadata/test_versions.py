"""The api-version: mandatory, known, and given once (M2, M3)."""

import pytest

from tests.fixtures.endpoint import EVENTS, EndpointHarness, poll
from tests.fixtures.http import Response

INSTANCE = "/metadata/instance"
PREVIEW = "2024-07-09"
NEWEST_VERSIONS = ["2025-04-07", "2024-07-17", "2024-03-15"]
BOTH = pytest.mark.parametrize("path", [EVENTS, INSTANCE])


def _send(endpoint: EndpointHarness, target: str, method: str = "GET") -> Response:
    endpoint.make("db")
    body = '{"StartRequests":[]}' if method == "POST" else None
    return endpoint.send_from("db_0", method, target, {"Metadata": "true"}, body)


@pytest.mark.spec("M2", "M3")
@BOTH
@pytest.mark.parametrize(
    "query",
    [
        *("", "?", "?format=json", "?version=2020-07-01", "?api-version"),
        *("?api-version=", "?api-version=latest", "?api-version={latest}"),
        *("?api-version=%7Blatest%7D", "?api-version=2020-7-1"),
        *("?api-version=2020-07-01-preview", "?api-version=20200701"),
        *("?api-version=2020-07-01%20", "?api-version=+2020-07-01"),
        *("?api-version=2020-07-01%0A", "?api-version=2020-07-0%D9%A1"),
        *("?api-version=%32020-07-0", "?api-version=v1", "?api-version=2020/07/01"),
    ],
)
def test_a_version_must_be_given(endpoint: EndpointHarness, path: str, query: str) -> None:
    """Without a date: 400, an error text, and the newest versions; `latest` is not a date."""
    response = _send(endpoint, f"{path}{query}")
    assert response.status == 400
    assert "api-version" in response.error
    assert response.json["newest-versions"] == NEWEST_VERSIONS


@pytest.mark.spec("M3")
@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("version", ["2031-01-01", "2016-01-01", "2021-12-13", "2020-13-45"])
def test_an_unknown_version_of_events_is_not_found(
    endpoint: EndpointHarness, method: str, version: str
) -> None:
    """404, so that a client that tries a newer version falls back; the text lists ours."""
    response = _send(endpoint, f"{EVENTS}?api-version={version}", method)
    assert response.status == 404
    assert version in response.error
    assert "2020-07-01" in response.error
    assert PREVIEW not in response.error


@pytest.mark.spec("M3", "M19")
@pytest.mark.parametrize("version", ["2031-01-01", "2016-01-01", "2020-07-01", "2017-11-01"])
def test_an_unknown_version_of_instance_is_a_bad_request(
    endpoint: EndpointHarness, version: str
) -> None:
    """400 with the newest versions, so that cloud-init falls back; so do versions of events."""
    response = _send(endpoint, f"{INSTANCE}?api-version={version}")
    assert response.status == 400
    assert version in response.error
    assert response.json["newest-versions"] == NEWEST_VERSIONS


@pytest.mark.spec("M3")
@BOTH
@pytest.mark.parametrize(
    "query",
    [
        "api-version=2019-08-01&api-version=2019-08-01",
        "api-version=2019-08-01&api-version=2017-08-01",
        "api-version=2019-08-01&Api-Version=2019-08-01",
        "api-version=2019-08-01&api%2Dversion=2019-08-01",
        "%61pi-version=2019-08-01&api-version=2019-08-01",
        "api-version=2019-08-01&format=text&FORMAT=json",
        "api-version=2019-08-01&unknown=1&unknown=2",
        "api-version=2019-08-01&api-version",
        "wait=1&api-version=2019-08-01&wait=1",
    ],
)
def test_a_parameter_given_twice(endpoint: EndpointHarness, path: str, query: str) -> None:
    """400, however the second is spelt, and even if both values agree."""
    response = _send(endpoint, f"{path}?{query}")
    assert response.status == 400
    assert "twice" in response.error


@pytest.mark.spec("M2", "M3")
def test_the_preview_version_is_off_by_default(endpoint: EndpointHarness) -> None:
    """2024-07-09 is not found unless enabled, and a client can fall back on the same connection."""
    endpoint.make("db")
    connection = endpoint.client("db_0")
    refused = poll(connection, PREVIEW)
    assert (refused.status, bool(refused.error)) == (404, True)
    assert poll(connection).status == 200
