"""Two documents in, what happened between them out."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning import Change, Document, Event, EventStatus, EventType, Phase, changes

pytestmark = pytest.mark.spec("G1")

WHEN = datetime(2026, 1, 9, 12, 15, tzinfo=UTC)
PLANNED = Event("A", EventType.REBOOT, EventStatus.SCHEDULED, ("vm-1", "vm-2"), WHEN)
STARTED = replace(PLANNED, status=EventStatus.STARTED, not_before=None)
OTHER = replace(PLANNED, id="B")


def between(before: tuple[Event, ...], after: tuple[Event, ...]) -> tuple[Change, ...]:
    """What happened, whatever the counter says."""
    found = changes(Document(5, before), Document(6, after))
    assert found == changes(Document(5, before), Document(1, after))
    assert found == changes(Document(5, before), Document(5, after))
    return found


def test_the_life_of_an_event() -> None:
    """It is announced, it starts, it is over: each is told once."""
    assert between((), (PLANNED,)) == (Change(Phase.SCHEDULED, PLANNED),)
    assert between((PLANNED,), (PLANNED,)) == ()
    assert between((PLANNED,), (STARTED,)) == (Change(Phase.STARTED, STARTED),)
    assert between((STARTED,), (STARTED,)) == ()
    assert between((STARTED,), ()) == (Change(Phase.OVER, STARTED),)


def test_an_event_that_is_gone_before_it_was_seen_to_start() -> None:
    """It is over, and perhaps was cancelled."""
    assert between((PLANNED,), ()) == (Change(Phase.OVER, PLANNED, cancelled=True),)


def test_an_event_that_starts_without_notice() -> None:
    """Hardware fails so. It is told as started, and never as announced."""
    assert between((), (STARTED,)) == (Change(Phase.STARTED, STARTED),)


@pytest.mark.parametrize(
    "changed",
    [
        replace(PLANNED, not_before=WHEN + timedelta(minutes=1)),
        replace(PLANNED, not_before=None),
        replace(PLANNED, resources=("vm-1",)),
    ],
)
def test_an_event_that_changes(changed: Event) -> None:
    """When, and whom: both are told, with the event as it is now."""
    assert between((PLANNED,), (changed,)) == (Change(Phase.CHANGED, changed),)


def test_an_event_that_changes_in_words_only() -> None:
    """There is nothing to do about that."""
    assert between((PLANNED,), (replace(PLANNED, description="Soon."),)) == ()


def test_an_event_that_changes_and_starts() -> None:
    """That it has started is all that counts."""
    found = between((PLANNED,), (replace(STARTED, resources=("vm-1",)),))
    assert [change.phase for change in found] == [Phase.STARTED]


def test_ids_compare_without_case() -> None:
    """The same event in another spelling is no other event."""
    assert between((PLANNED,), (replace(PLANNED, id="a"),)) == ()


def test_what_is_over_comes_first() -> None:
    """Recovery from one event does not wait for preparation for the next."""
    third = replace(PLANNED, id="C")
    assert between((PLANNED, OTHER), (third, OTHER)) == (
        Change(Phase.OVER, PLANNED, cancelled=True),
        Change(Phase.SCHEDULED, third),
    )


def test_an_event_that_comes_back() -> None:
    """Whatever the endpoint meant by it, the event is announced anew."""
    assert between((), (PLANNED,)) == (Change(Phase.SCHEDULED, PLANNED),)


LISTS = st.lists(
    st.builds(
        Event,
        id=st.sampled_from("ABCD"),
        type=st.sampled_from(EventType),
        status=st.sampled_from(EventStatus),
        resources=st.just(("vm-1",)),
        not_before=st.sampled_from([None, WHEN]),
    ),
    max_size=4,
    unique_by=lambda event: event.id,
).map(tuple)


@given(LISTS, LISTS)
def test_who_follows_the_changes_knows_the_document(
    before: tuple[Event, ...], after: tuple[Event, ...]
) -> None:
    """Nothing comes or goes without being told, and nothing is told twice."""
    found = changes(Document(1, before), Document(2, after))
    assert len({change.event.id for change in found}) == len(found)
    known = {event.id for event in before}
    for change in found:
        if change.phase is Phase.OVER:
            known.remove(change.event.id)
        else:
            assert change.event in after
            known.add(change.event.id)
    assert known == {event.id for event in after}
