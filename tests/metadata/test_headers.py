"""Headers that a request needs, and those it must not have (M4, M5)."""

import pytest

from tests.fixtures.endpoint import EVENTS, EndpointHarness, approval, poll, raw_request
from tests.fixtures.http import Response

POLL = f"{EVENTS}?api-version=2020-07-01"
INSTANCE = "/metadata/instance?api-version=2021-02-01"
VERSIONS = (
    "2017-03-01", "2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01",
    "2020-07-01",
)  # fmt: skip


def _ready(it: EndpointHarness) -> str:
    """A machine with an event to approve: the body of its approval."""
    it.make("db")
    it.get("db_0")
    return approval(it.restart("db_0").id)


def _status(it: EndpointHarness) -> str:
    """That of the one event."""
    (event,) = it.get("db_0").json["Events"]
    status: str = event["EventStatus"]
    return status


def _post(it: EndpointHarness, version: str, headers: dict[str, str]) -> Response:
    return it.send_from("db_0", "POST", f"{EVENTS}?api-version={version}", headers, _ready(it))


@pytest.mark.spec("M4")
@pytest.mark.parametrize("value", ["true", "True", "TRUE", "tRuE", " true "])
def test_metadata_true_in_any_case(value: str) -> None:
    """The value is compared without case, for GET and POST."""
    with EndpointHarness() as it:
        body = _ready(it)
        assert it.send_from("db_0", "GET", POLL, {"Metadata": value}).status == 200
        assert it.send_from("db_0", "POST", POLL, {"metadata": value}, body).status == 200
        assert _status(it) == "Started"


@pytest.mark.spec("M4")
@pytest.mark.parametrize("value", ["", "false", "1", "yes", "true,true", "truely", '"true"'])
def test_metadata_must_be_true(value: str) -> None:
    """Any other value is refused with 400 and a text that says what to send."""
    with EndpointHarness() as it:
        body = _ready(it)
        for answer in (
            it.send_from("db_0", "GET", POLL, {"Metadata": value}),
            it.send_from("db_0", "GET", INSTANCE, {"Metadata": value}),
            it.send_from("db_0", "POST", POLL, {"Metadata": value}, body),
        ):
            assert answer.status == 400
            assert "true" in answer.error
        assert _status(it) == "Scheduled"


@pytest.mark.spec("M4")
@pytest.mark.parametrize("version", VERSIONS)
def test_every_get_needs_it(version: str) -> None:
    """Without the header a GET is refused, whatever the version, and enables nothing."""
    with EndpointHarness() as it:
        it.make("db")
        answer = it.send_from("db_0", "GET", f"{EVENTS}?api-version={version}", {})
        assert answer.status == 400
        assert "Metadata: true" in answer.error
        assert not it.scope("db").enabled


@pytest.mark.spec("M4", "M19")
@pytest.mark.parametrize("target", [INSTANCE, "/metadata/versions"])
def test_instance_metadata_needs_it_too(target: str) -> None:
    """It is required on every request."""
    with EndpointHarness() as it:
        it.make("db")
        answer = it.send_from("db_0", "GET", target, {})
        assert answer.status == 400
        assert "Metadata: true" in answer.error


@pytest.mark.spec("M4")
@pytest.mark.parametrize("version", VERSIONS)
def test_a_post_needs_it_but_for_the_first_version(version: str) -> None:
    """The C# sample of 2017-03-01 posts without the header; from 2017-08-01 on that is refused."""
    with EndpointHarness() as it:
        answer = _post(it, version, {"Content-Type": "application/json"})
        if version == "2017-03-01":
            assert (answer.status, answer.body) == (200, b"")
            assert _status(it) == "Started"
        else:
            assert answer.status == 400
            assert "Metadata: true" in answer.error
            assert _status(it) == "Scheduled"


@pytest.mark.spec("M4")
def test_given_twice() -> None:
    """Two Metadata headers are one too many, even if both are true."""
    with EndpointHarness() as it:
        it.make("db")
        answer = it.raw("db_0", raw_request(POLL, "Metadata: true"))
        assert answer.startswith(b"HTTP/1.1 400 ")


@pytest.mark.spec("M5")
@pytest.mark.parametrize("name", ["X-Forwarded-For", "x-forwarded-for", "X-FORWARDED-FOR"])
@pytest.mark.parametrize("value", ["10.0.0.1", "127.0.0.1", "", "unknown, 10.0.0.1"])
def test_a_forwarded_request_is_refused(name: str, value: str) -> None:
    """A proxy asks for somebody else: 400, whatever the header says."""
    with EndpointHarness() as it:
        body = _ready(it)
        for method, target in (("GET", POLL), ("GET", INSTANCE), ("POST", POLL)):
            sent = body if method == "POST" else None
            answer = it.send_from("db_0", method, target, {"Metadata": "true", name: value}, sent)
            assert answer.status == 400
            assert "x-forwarded-for" in answer.error
        assert _status(it) == "Scheduled"


@pytest.mark.spec("M5")
@pytest.mark.parametrize(
    ("method", "target", "http"),
    [
        ("GET", "/", "1.1"),
        ("GET", f"{EVENTS}?api-version=2031-01-01", "1.1"),
        ("GET", EVENTS, "1.1"),
        ("DELETE", POLL, "1.1"),
        ("GET", POLL, "1.0"),
        ("GET", f"{EVENTS}?api-version=2017-03-01", "1.1"),
        ("GET", "/metadata/versions", "1.1"),
    ],
)
def test_whatever_else_it_carries(method: str, target: str, http: str) -> None:
    """It comes before every other reason: a proxy learns nothing more."""
    with EndpointHarness() as it:
        it.make("db")
        sent = raw_request(target, "X-Forwarded-For: 10.0.0.1", method=method, http=http)
        answer = it.raw("db_0", sent)
        assert answer.startswith(b"HTTP/1.1 400 ")
        assert b"x-forwarded-for" in answer


@pytest.mark.spec("M5", "M4")
def test_the_first_versions_post_may_not_be_forwarded_either() -> None:
    """What needs no Metadata header still must come from the machine itself."""
    with EndpointHarness() as it:
        assert _post(it, "2017-03-01", {"X-Forwarded-For": "10.0.0.1"}).status == 400
        assert _status(it) == "Scheduled"


@pytest.mark.spec("M5")
def test_a_poll_by_heart_does_not_open_the_way() -> None:
    """A connection that polled well is refused as soon as the header appears, and only then."""
    with EndpointHarness() as it:
        it.make("db")
        connection = it.client("db_0")
        for headers, status in (({}, 200), ({}, 200), ({"X-Forwarded-For": "1"}, 400), ({}, 200)):
            assert poll(connection, **headers).status == status
