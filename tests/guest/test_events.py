"""Documents of every version are parsed; any other response is `Unreadable`."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning import (
    Change,
    Document,
    Event,
    EventSource,
    EventStatus,
    EventType,
    Phase,
    Unreadable,
    changes,
)
from fairwarning.guest import events

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
    """Return a document with these events as bytes."""
    return json.dumps({"DocumentIncarnation": incarnation, "Events": listed}).encode()


def parse_event(**changed: Any) -> Event:  # noqa: ANN401  (any value of a field)
    """Parse an event of the first version with changed fields; None removes a field."""
    raw = {name: value for name, value in {**OLDEST, **changed}.items() if value is not None}
    (event,) = events.read(body(raw)).events
    return event


# --- Versions -------------------------------------------------------------------------------------


def test_an_event_of_the_first_version() -> None:
    """Fields of later versions stay empty."""
    assert parse_event() == Event(
        id=ID,
        type=EventType.FREEZE,
        status=EventStatus.SCHEDULED,
        resources=("_vm-1",),
        not_before=WHEN,
    )
    assert (parse_event().source, parse_event().duration, parse_event().description) == (
        "",
        None,
        "",
    )


def test_an_event_of_the_newest_version() -> None:
    """All fields are parsed."""
    event = parse_event(
        Description="Host maintenance.", EventSource="Platform", DurationInSeconds=9
    )
    assert event.description == "Host maintenance."
    assert event.source is EventSource.PLATFORM
    assert event.duration == timedelta(seconds=9)


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
        "0001-01-01T00:00:00",
        "0001-01-01T00:00:00+23:00",
        "Mon, 01 Jan 0001 00:00:00 GMT",
        "1969-12-31T23:59:59Z",
        "3000-01-01T00:00:00Z",
        "9999-12-31T23:59:59Z",
        "9999-12-31T23:59:59-23:00",
    ],
)
def test_a_missing_or_invalid_date(value: object) -> None:
    """The event is still parsed; its start is unknown and may be now."""
    event = parse_event(NotBefore=value)
    assert event.not_before is None
    assert event.seconds_left(WHEN) == 0


@pytest.mark.parametrize("value", [-1, None, "9", 1.5, True, 10**12, [], -(10**30)])
def test_an_unknown_duration(value: object) -> None:
    """-1 means unknown, and so does an invalid value; zero is a known duration."""
    assert parse_event(DurationInSeconds=value).duration is None
    assert parse_event(DurationInSeconds=0).duration == timedelta(0)


def test_unknown_values_and_fields() -> None:
    """A new type, status or source stays a string; a new field is ignored."""
    event = parse_event(
        EventType="Teleport", EventStatus="Pondering", EventSource="Moon", Colour="red"
    )
    assert (event.type, event.status, event.source) == ("Teleport", "Pondering", "Moon")
    assert not event.started


@pytest.mark.parametrize("kind", EventType)
def test_every_type_in_any_case(kind: EventType) -> None:
    """Known types are recognised in any case."""
    assert parse_event(EventType=kind.value).type is kind
    assert parse_event(EventType=kind.value.upper()).type is kind


@pytest.mark.parametrize("incarnation", [7, "7"])
def test_the_incarnation(incarnation: object) -> None:
    """It is a number; some endpoints send a string."""
    assert events.read(body(incarnation=incarnation)) == Document(7)


# --- Methods of an event --------------------------------------------------------------------------


def test_seconds_left() -> None:
    """The seconds until NotBefore, never negative; zero once started."""
    assert parse_event().seconds_left(WHEN - timedelta(seconds=90)) == 90
    assert parse_event().seconds_left(WHEN + timedelta(seconds=90)) == 0
    assert parse_event(EventStatus="Started").seconds_left(WHEN - timedelta(seconds=90)) == 0


@pytest.mark.spec("G3")
@pytest.mark.parametrize(("listed", "name"), [("_vm-1", "vm-1"), ("Web_0", "web_0")])
def test_concerns(listed: str, name: str) -> None:
    """Names ignore case and the underscore of the first version."""
    event = parse_event(Resources=["other", listed])
    assert event.concerns(name)
    assert event.concerns(listed)
    assert not event.concerns(f"{name}0")


# --- Unreadable -----------------------------------------------------------------------------------


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
        b'{"DocumentIncarnation":1' + b"0" * 1_000 + b',"Events":[]}',
        body(incarnation="9" * 1_000),
    ],
)
def test_unreadable_responses(sent: bytes) -> None:
    """They differ from a document without events; the error shows a part of them."""
    with pytest.raises(Unreadable) as caught:
        events.read(sent)
    assert len(str(caught.value)) < 500


ODD_IDS: list[object] = ["", 5, None, [], "a\nb", "\x00", "\ud800", "x" * 100]
ODD_RESOURCES: list[object] = ["vm-1", None, {}, [""], [5], ["\x00"]]


@pytest.mark.parametrize(
    "changed",
    [
        {},
        "x",
        None,
        5,
        [],
        *({**OLDEST, "EventId": value} for value in ODD_IDS),
        *({**OLDEST, "Resources": value} for value in ODD_RESOURCES),
        *({**OLDEST, member: None} for member in ("EventType", "EventStatus")),
        *({**OLDEST, member: {"a": 1}} for member in ("EventType", "EventStatus")),
    ],
)
def test_a_malformed_event_is_skipped(changed: Any) -> None:  # noqa: ANN401  (any JSON)
    """The document names it, and has the events before and after it."""
    first, last = ({**OLDEST, "EventId": name} for name in ("first", "last"))
    document = events.read(body(first, changed, last))
    assert [event.id for event in document.events] == ["first", "last"]
    (skipped,) = document.skipped
    is_known = isinstance(changed, dict) and changed.get("EventId") == ID
    assert skipped.id == (ID if is_known else "")
    assert skipped.reason


def test_many_malformed_events() -> None:
    """Only the first are kept in memory, and the number of the others."""
    document = events.read(body(*[None] * 1_000, OLDEST))
    assert len(document.events) == 1
    assert len(document.skipped) == 101
    assert document.skipped[-1].reason == "900 more events are malformed"


@pytest.mark.parametrize("value", ["x\ud800y", "x" * 10_000, 5, {"a": 1}])
def test_an_odd_description(value: object) -> None:
    """It is shortened, and can be printed."""
    description = parse_event(Description=value).description
    assert len(description.encode()) <= 4_000


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
BODIES = st.binary(max_size=60) | JSON.map(json.dumps).map(str.encode)


@given(EVENTS)
def test_events_round_trip(raw: dict[str, Any]) -> None:
    """`from_json` reads what `to_json` writes, to the second."""
    document = events.read(body(raw))
    if document.skipped:
        return
    (event,) = document.events
    written = json.loads(json.dumps(events.to_json(event)))
    assert events.from_json(written) == event


# --- Changes between two documents ----------------------------------------------------------------

PLANNED = Event("A", EventType.REBOOT, EventStatus.SCHEDULED, ("vm-1", "vm-2"), WHEN)
STARTED = replace(PLANNED, status=EventStatus.STARTED, not_before=None)
OTHER = replace(PLANNED, id="B")
LATER = replace(PLANNED, not_before=WHEN + timedelta(minutes=1))
UNDATED = replace(PLANNED, not_before=None)
SMALLER = replace(PLANNED, resources=("vm-1",))
STARTED_SMALLER = replace(STARTED, resources=("vm-1",))
THIRD = replace(PLANNED, id="C")
CANCELLED = Change(Phase.OVER, PLANNED, cancelled=True)

CASES: dict[str, tuple[tuple[Event, ...], tuple[Event, ...], tuple[Change, ...]]] = {
    "announced": ((), (PLANNED,), (Change(Phase.SCHEDULED, PLANNED),)),
    "unchanged": ((PLANNED,), (PLANNED,), ()),
    "started": ((PLANNED,), (STARTED,), (Change(Phase.STARTED, STARTED),)),
    "still started": ((STARTED,), (STARTED,), ()),
    "over": ((STARTED,), (), (Change(Phase.OVER, STARTED),)),
    "over before its start was seen": ((PLANNED,), (), (CANCELLED,)),
    "started without notice": ((), (STARTED,), (Change(Phase.STARTED, STARTED),)),
    "another date": ((PLANNED,), (LATER,), (Change(Phase.CHANGED, LATER),)),
    "no date": ((PLANNED,), (UNDATED,), (Change(Phase.CHANGED, UNDATED),)),
    "another order of the resources": (
        (PLANNED,),
        (replace(PLANNED, resources=("vm-2", "vm-1")),),
        (),
    ),
    "other resources": ((PLANNED,), (SMALLER,), (Change(Phase.CHANGED, SMALLER),)),
    "another description": ((PLANNED,), (replace(PLANNED, description="Soon."),), ()),
    "changed and started": (
        (PLANNED,),
        (STARTED_SMALLER,),
        (Change(Phase.STARTED, STARTED_SMALLER),),
    ),
    "an id in another case": ((PLANNED,), (replace(PLANNED, id="a"),), ()),
    "events that are over come first": (
        (PLANNED, OTHER),
        (THIRD, OTHER),
        (CANCELLED, Change(Phase.SCHEDULED, THIRD)),
    ),
}


@pytest.mark.parametrize(("before", "after", "expected"), CASES.values(), ids=CASES)
def test_each_change_is_reported_once(
    before: tuple[Event, ...], after: tuple[Event, ...], expected: tuple[Change, ...]
) -> None:
    """Whatever the incarnations are; they may restart."""
    for incarnation in (6, 5, 1):
        assert changes(Document(5, before), Document(incarnation, after)) == expected
