"""Any document of any version is read; anything else is `Unreadable`, and nothing is guessed."""

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fairwarning import Document, Event, EventSource, EventStatus, EventType, Unreadable
from fairwarning.guest import events
from tests.guest.double import Double

pytestmark = pytest.mark.spec("G1")

ID = "4CAEA225-A741-474D-A72E-428C86FCD853"
WHEN = datetime(2016, 9, 19, 18, 29, 47, tzinfo=UTC)
OLDEST = {
    "EventId": ID,
    "EventStatus": "Scheduled",
    "EventType": "Freeze",
    "ResourceType": "VirtualMachine",
    "Resources": ["_vm-1"],
    "NotBefore": "2016-09-19T18:29:47Z",
}


def body(*listed: object, incarnation: object = 1) -> bytes:
    """A document with these events, as it is sent."""
    return json.dumps({"DocumentIncarnation": incarnation, "Events": listed}).encode()


def one(**changed: Any) -> Event:  # noqa: ANN401  (any value of a field)
    """How the oldest event is read with these fields changed; None leaves a field out."""
    raw = {name: value for name, value in {**OLDEST, **changed}.items() if value is not None}
    (event,) = events.read(body(raw)).events
    return event


# --- Versions -------------------------------------------------------------------------------------


def test_an_event_of_the_first_version() -> None:
    """What later versions added is left open, not made up."""
    assert one() == Event(
        id=ID,
        type=EventType.FREEZE,
        status=EventStatus.SCHEDULED,
        resources=("_vm-1",),
        not_before=WHEN,
    )
    assert (one().source, one().duration, one().description) == ("", None, "")


def test_an_event_of_the_newest_version() -> None:
    """All that it says is there."""
    event = one(Description="Host maintenance.", EventSource="Platform", DurationInSeconds=9)
    assert event.description == "Host maintenance."
    assert event.source is EventSource.PLATFORM
    assert event.duration == timedelta(seconds=9)


@pytest.mark.parametrize("text", ["Mon, 19 Sep 2016 18:29:47 GMT", "2016-09-19T18:29:47Z"])
def test_both_spellings_of_a_date(text: str) -> None:
    """They mean the same moment, in UTC."""
    found = one(NotBefore=text).not_before
    assert found == WHEN
    assert found is not None
    assert found.tzinfo is UTC


@pytest.mark.parametrize(
    "value",
    [
        None,
        "",
        " ",
        "soon",
        [],
        {},
        False,
        0,
        "Mon, 99 Sep 2016 18:29:47 GMT",
        "0001-01-01T00:00:00+23:00",
        "9999-12-31T23:59:59-23:00",
    ],
)
def test_a_date_that_is_missing_blank_or_no_date(value: object) -> None:
    """The event is there all the same. When it begins is not known: it may be now."""
    event = one(NotBefore=value)
    assert event.not_before is None
    assert event.seconds_left(WHEN) == 0


@pytest.mark.parametrize("value", [-1, None, "9", 1.5, True, 10**12, [], -(10**30)])
def test_a_duration_that_says_nothing(value: object) -> None:
    """Minus one means unknown, and so does what is no number of seconds."""
    assert one(DurationInSeconds=value).duration is None


def test_no_interruption_is_a_duration() -> None:
    """Zero is known, and is not the same as unknown."""
    assert one(DurationInSeconds=0).duration == timedelta(0)


def test_what_nobody_knew_of_yet() -> None:
    """A new type, status or source stays the word it was; a new field is passed over."""
    event = one(EventType="Teleport", EventStatus="Pondering", EventSource="Moon", Colour="red")
    assert (event.type, event.status, event.source) == ("Teleport", "Pondering", "Moon")
    assert not event.started


@pytest.mark.parametrize("kind", EventType)
def test_every_type_in_any_case(kind: EventType) -> None:
    """What is known is recognised."""
    assert one(EventType=kind.value).type is kind
    assert one(EventType=kind.value.upper()).type is kind


@pytest.mark.parametrize("incarnation", [7, "7"])
def test_the_counter(incarnation: object) -> None:
    """A number; some write it as text."""
    assert events.read(body(incarnation=incarnation)) == Document(7)


# --- What an event tells --------------------------------------------------------------------------


def test_the_time_that_is_left() -> None:
    """Until the date; never below nothing; nothing once it has started."""
    assert one().seconds_left(WHEN - timedelta(seconds=90)) == 90
    assert one().seconds_left(WHEN + timedelta(seconds=90)) == 0
    assert one(EventStatus="Started").seconds_left(WHEN - timedelta(seconds=90)) == 0


@pytest.mark.spec("G3")
@pytest.mark.parametrize(("listed", "name"), [("_vm-1", "vm-1"), ("Web_0", "web_0")])
def test_whom_an_event_concerns(listed: str, name: str) -> None:
    """Names compare without case, and without the underscore that the first version put there."""
    event = one(Resources=["other", listed])
    assert event.concerns(name)
    assert event.concerns(listed)
    assert not event.concerns(f"{name}0")


def test_an_event_is_found_by_its_id() -> None:
    """In either case, as ids are compared."""
    document = events.read(body(OLDEST))
    assert document.find(ID.lower()) == document.events[0]
    assert document.find("x") is None


def test_events_do_not_change() -> None:
    """Whoever was given one can keep it, also as a key."""
    event = one()
    with pytest.raises(AttributeError):
        event.id = "x"  # type: ignore[misc]
    assert {event: 1}[one()] == 1


# --- What is no document --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"{}",
        b"<html>",
        b"\xff\xfe\xfd",
        b"\x00\x07\x1b" + body(OLDEST) + b"\x1f",
        body(OLDEST)[:-9],
        b"[" * 100_000,
        b'{"Events":[]}',
        b'{"DocumentIncarnation":1}',
        b'{"DocumentIncarnation":1,"Events":null}',
        b'{"DocumentIncarnation":1,"Events":""}',
        b'{"DocumentIncarnation":1,"Events":{}}',
        b'{"DocumentIncarnation":"x","Events":[]}',
        b'{"DocumentIncarnation":Infinity,"Events":[]}',
        b'{"DocumentIncarnation":1,"Events":[{}]}',
        body("x"),
        body(None),
        body({**OLDEST, "EventId": ""}),
        body({**OLDEST, "EventId": 5}),
        body({**OLDEST, "Resources": "vm-1"}),
        body({**OLDEST, "Resources": [""]}),
    ],
)
def test_what_is_no_document(sent: bytes) -> None:
    """It is told apart from a document that has no events, and shown in part."""
    with pytest.raises(Unreadable) as caught:
        events.read(sent)
    assert len(str(caught.value)) < 500


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)
ZONES = st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes)))
DATES = st.datetimes(timezones=ZONES).map(str)
EVENTS = st.fixed_dictionaries(
    {name: st.just(value) | JSON for name, value in OLDEST.items() if name != "NotBefore"},
    optional={
        "NotBefore": DATES | JSON,
        "EventSource": JSON,
        "DurationInSeconds": JSON,
        "Description": JSON,
    },
)
DOCUMENTS = st.fixed_dictionaries(
    {"DocumentIncarnation": JSON | st.just(3), "Events": JSON | st.lists(EVENTS, max_size=3)}
)
BODIES = st.binary(max_size=60) | JSON.map(json.dumps).map(str.encode)


@given(BODIES | DOCUMENTS.map(json.dumps).map(str.encode))
@example(b"9" * 5_000)
@example(body({**OLDEST, "NotBefore": "0001-01-01T00:00:00+01:00"}))
def test_reading_never_fails_in_another_way(sent: bytes) -> None:
    """Either a document comes out, or `Unreadable`; never anything else."""
    try:
        document = events.read(sent)
    except Unreadable:
        return
    assert all(isinstance(event, Event) for event in document.events)


@given(EVENTS)
def test_an_event_is_the_same_when_it_is_read_again(raw: dict[str, Any]) -> None:
    """What `to_json` writes, `from_json` reads, to the second."""
    try:
        (event,) = events.read(body(raw)).events
    except Unreadable:
        return
    written = json.loads(json.dumps(events.to_json(event)))
    assert events.from_json(written) == event


def test_the_double_writes_what_azure_writes() -> None:
    """So that what is tested with it holds there as well."""
    double = Double()
    raw = double.announce("vm-1", "vm-2")
    assert list(raw) == list(events.to_json(one()))
    assert events.read(body(raw)).events[0].resources == ("vm-1", "vm-2")
