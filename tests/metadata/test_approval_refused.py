"""Approvals that are wrong in any part: nothing is approved, and the text says why (M13)."""

import json

import pytest

from fairwarning.core.model import EventStatus
from tests.fixtures.endpoint import EVENTS, EndpointHarness
from tests.fixtures.http import Response, send

pytestmark = pytest.mark.spec("M13")

POST = f"{EVENTS}?api-version=2020-07-01"
STRANGE = "00000000-1111-2222-3333-444444444444"


def _announced(it: EndpointHarness) -> list[str]:
    """Two events in one scope."""
    it.make("db", 2)
    it.get("db_0")
    return [it.restart("db_0").id, it.restart("db_1").id]


def _post(it: EndpointHarness, body: bytes | str) -> Response:
    return it.send_from("db_0", "POST", POST, {"Metadata": "true"}, body)


def _refused(it: EndpointHarness, body: bytes | str) -> str:
    """The error text; nothing is approved, and the document is as it was."""
    before = it.get("db_0").body
    answer = _post(it, body)
    assert answer.status == 400
    assert it.get("db_0").body == before
    events = it.scope("db").events.values()
    assert {(event.status, event.approved_by) for event in events} == {(EventStatus.SCHEDULED, "")}
    return answer.error


def _named(*events: object) -> str:
    return json.dumps({"StartRequests": [{"EventId": event} for event in events]})


def test_an_unknown_event() -> None:
    """The text names the id that is not there."""
    with EndpointHarness() as it:
        _announced(it)
        assert STRANGE in _refused(it, _named(STRANGE))


def test_an_event_that_is_over() -> None:
    """What is gone from the document cannot be approved."""
    with EndpointHarness() as it:
        gone, _ = _announced(it)
        it.approve("db_0", gone)
        it.advance(60)
        assert gone in _refused(it, _named(gone))


@pytest.mark.spec("M16")
def test_an_event_of_another_scope() -> None:
    """It is as unknown as one that never was, and the text tells no difference."""
    with EndpointHarness() as it:
        _announced(it)
        it.make("web")
        it.get("web_0")
        other = it.restart("web_0").id
        error = _refused(it, _named(other))
        assert error.replace(other, STRANGE) == _refused(it, _named(STRANGE))
        (kept,) = it.scope("web").events.values()
        assert kept.status is EventStatus.SCHEDULED


@pytest.mark.parametrize("place", [0, 1, 2])
def test_all_or_none(place: int) -> None:
    """One wrong id among right ones, wherever it stands, and none of them is approved."""
    with EndpointHarness() as it:
        names = _announced(it)
        names.insert(place, STRANGE)
        assert STRANGE in _refused(it, _named(*names))
        names[place] = "not an id"
        assert "not an id" in _refused(it, _named(*names))


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
    ],
)
def test_what_is_missing_or_of_the_wrong_type(body: str, named: str) -> None:
    """The text says which part is wrong."""
    with EndpointHarness() as it:
        _announced(it)
        assert named in _refused(it, body)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"{",
        b"StartRequests",
        b"StartRequests=1&EventId=2",
        b'{"StartRequests":[{"EventId":"x"}]',
        b"{'StartRequests':[]}",
        b'{"StartRequests":[{"EventId":"\xff\xfe"}]}',
        b"\x00",
        b"[" * 60_000,
        b'{"x":' * 10_000 + b"1" + b"}" * 10_000,
    ],
)
def test_what_is_not_json(body: bytes) -> None:
    """Nor is a body that breaks off, is no text, or is nested beyond reason."""
    with EndpointHarness() as it:
        _announced(it)
        assert "StartRequests" in _refused(it, body)


def test_right_json_with_more_after_it() -> None:
    """A body is one value."""
    with EndpointHarness() as it:
        events = _announced(it)
        assert _refused(it, _named(*events) + "{}")


@pytest.mark.parametrize("spelling", ["{{{}}}", " {}", "{} ", "{}\n", "x{}", "{}0"])
def test_what_is_not_an_id(spelling: str) -> None:
    """An id is a GUID as the document has it, with nothing before or after."""
    with EndpointHarness() as it:
        event, _ = _announced(it)
        assert "EventId" in _refused(it, _named(spelling.format(event)))


def test_too_many_ids() -> None:
    """At most 100 in one body, also if they are the same."""
    with EndpointHarness() as it:
        event, _ = _announced(it)
        assert "100" in _refused(it, _named(*[event] * 101))
        assert _post(it, _named(*[event] * 100)).status == 200


def test_a_long_wrong_id_is_not_repeated_in_full() -> None:
    """The text stays short, whatever was sent."""
    with EndpointHarness() as it:
        _announced(it)
        assert len(_refused(it, _named("x" * 60_000))) < 300


def test_the_connection_goes_on() -> None:
    """A refused approval is answered, and so is the next, on the same connection."""
    with EndpointHarness() as it:
        event, _ = _announced(it)
        connection = it.client("db_0")
        for body, status in (("{}", 400), (_named(STRANGE), 400), (_named(event), 200)):
            assert send(connection, "POST", POST, {"Metadata": "true"}, body).status == status
        connection.close()
        assert it.call(lambda: it.server.accepted) == 2  # the first was to be enabled


def test_a_machine_of_a_scope_that_is_off() -> None:
    """Where nothing is announced there is nothing to approve; and no approval enables."""
    with EndpointHarness() as it:
        it.make("db")
        assert _post(it, _named(STRANGE)).status == 400
        assert not it.scope("db").enabled
