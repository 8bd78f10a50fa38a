"""Invalid approvals: nothing is approved, and the error text gives the reason (M13)."""

import json

import pytest

from fairwarning.core.model import EventStatus
from tests.fixtures.endpoint import EVENTS, EndpointHarness
from tests.fixtures.http import Response

pytestmark = pytest.mark.spec("M13")

POST = f"{EVENTS}?api-version=2020-07-01"
STRANGE = "00000000-1111-2222-3333-444444444444"


def _announced(endpoint: EndpointHarness) -> list[str]:
    """Create two events in one scope."""
    endpoint.make("db", 2)
    endpoint.get("db_0")
    return [endpoint.restart("db_0").id, endpoint.restart("db_1").id]


def _post(endpoint: EndpointHarness, body: bytes | str) -> Response:
    return endpoint.send_from("db_0", "POST", POST, {"Metadata": "true"}, body)


def _refused(endpoint: EndpointHarness, body: bytes | str) -> str:
    """Return the error text; check that nothing is approved and the document is unchanged."""
    before = endpoint.get("db_0").body
    response = _post(endpoint, body)
    assert response.status == 400
    assert endpoint.get("db_0").body == before
    events = endpoint.scope("db").events.values()
    assert {(event.status, event.approved_by) for event in events} == {(EventStatus.SCHEDULED, "")}
    return response.error


def _named(*events: object) -> str:
    return json.dumps({"StartRequests": [{"EventId": event} for event in events]})


@pytest.mark.spec("M12")
def test_an_event_that_is_over(endpoint: EndpointHarness) -> None:
    """A client that repeats its approval gets 200 for ten minutes, and nothing changes."""
    gone, _ = _announced(endpoint)
    endpoint.approve("db_0", gone)
    endpoint.advance(60)
    before = endpoint.get("db_0").body
    assert gone.encode() not in before
    endpoint.advance(599)
    response = _post(endpoint, _named(gone))
    assert (response.status, response.body) == (200, b"")
    assert endpoint.get("db_0").body == before
    endpoint.advance(1)
    assert gone in _refused(endpoint, _named(gone))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_all_or_none(endpoint: EndpointHarness, place: int) -> None:
    """One invalid id among valid ones, in any position: none of them is approved."""
    names = _announced(endpoint)
    names.insert(place, STRANGE)
    assert STRANGE in _refused(endpoint, _named(*names))
    names[place] = "not an id"
    assert "not an id" in _refused(endpoint, _named(*names))


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("{}", "StartRequests"),
        ('{"StartRequests":null}', "StartRequests"),
        ('{"StartRequests":[]}', "StartRequests"),
        ('{"StartRequests":{}}', "StartRequests"),
        ('{"StartRequests":"x"}', "StartRequests"),
        ('{"StartRequests":[null]}', "StartRequests"),
        ('{"StartRequests":["x"]}', "StartRequests"),
        ('{"StartRequests":[[]]}', "StartRequests"),
        ('{"StartRequests":[{}]}', "EventId"),
        ('{"StartRequests":[{"EventId":null}]}', "EventId"),
        ('{"StartRequests":[{"EventId":7}]}', "EventId"),
        ('{"StartRequests":[{"EventId":["x"]}]}', "EventId"),
        ('{"StartRequests":[{"EventId":""}]}', "EventId"),
        ('{"StartRequests":[{"eventid":"x"}]}', "EventId"),
        ('{"startRequests":[{"EventId":"x"}]}', "StartRequests"),
        ('{"Events":[]}', "StartRequests"),
        ('{"DocumentIncarnation":5}', "StartRequests"),
        ("[]", "StartRequests"),
        ("null", "StartRequests"),
        ('"x"', "StartRequests"),
        ("7", "StartRequests"),
        # Not JSON: cut off, not UTF-8, or nested too deeply.
        (b"", "StartRequests"),
        (b" ", "StartRequests"),
        (b"{", "StartRequests"),
        (b"StartRequests", "StartRequests"),
        (b"StartRequests=1&EventId=2", "StartRequests"),
        (b'{"StartRequests":[{"EventId":"x"}]', "StartRequests"),
        (b"{'StartRequests':[]}", "StartRequests"),
        (b'{"StartRequests":[{"EventId":"\xff\xfe"}]}', "StartRequests"),
        (b"\x00", "StartRequests"),
        (b"[" * 60_000, "StartRequests"),
        (b'{"x":' * 10_000 + b"1" + b"}" * 10_000, "StartRequests"),
    ],
)
def test_a_wrong_body(endpoint: EndpointHarness, body: str | bytes, named: str) -> None:
    """The text says which member is wrong."""
    _announced(endpoint)
    assert named in _refused(endpoint, body)


def test_trailing_data_after_the_json(endpoint: EndpointHarness) -> None:
    """A body is a single JSON value."""
    events = _announced(endpoint)
    assert _refused(endpoint, _named(*events) + "{}")


@pytest.mark.parametrize("spelling", ["{{{}}}", " {}", "{} ", "{}\n", "x{}", "{}0"])
def test_malformed_id(endpoint: EndpointHarness, spelling: str) -> None:
    """An id is a GUID as in the document, with nothing before or after it; the text is short."""
    event, _ = _announced(endpoint)
    assert "EventId" in _refused(endpoint, _named(spelling.format(event)))
    assert len(_refused(endpoint, _named(spelling.format(event) * 1_500))) < 300


def test_too_many_ids(endpoint: EndpointHarness) -> None:
    """A body may name at most 100 ids, even if they are the same."""
    event, _ = _announced(endpoint)
    assert "100" in _refused(endpoint, _named(*[event] * 101))
    assert _post(endpoint, _named(*[event] * 100)).status == 200


def test_a_disabled_scope(endpoint: EndpointHarness) -> None:
    """A disabled scope has no events to approve, and an approval does not enable it."""
    endpoint.make("db")
    assert _post(endpoint, _named(STRANGE)).status == 400
    assert not endpoint.scope("db").enabled
