"""Changes between two documents."""

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
    """Return the changes, which do not depend on the incarnations."""
    changed = changes(Document(5, before), Document(6, after))
    assert changed == changes(Document(5, before), Document(1, after))
    assert changed == changes(Document(5, before), Document(5, after))
    return changed


def test_all_phases_of_an_event() -> None:
    """Announced, started, over: each is reported once."""
    assert between((), (PLANNED,)) == (Change(Phase.SCHEDULED, PLANNED),)
    assert between((PLANNED,), (PLANNED,)) == ()
    assert between((PLANNED,), (STARTED,)) == (Change(Phase.STARTED, STARTED),)
    assert between((STARTED,), (STARTED,)) == ()
    assert between((STARTED,), ()) == (Change(Phase.OVER, STARTED),)


def test_an_event_that_is_over_before_a_start_was_seen() -> None:
    """It is over, and possibly cancelled."""
    assert between((PLANNED,), ()) == (Change(Phase.OVER, PLANNED, cancelled=True),)


def test_an_event_that_starts_without_notice() -> None:
    """As with failing hardware: reported as started, and never as scheduled."""
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
    """A new date or new resources are reported, with the current event."""
    assert between((PLANNED,), (changed,)) == (Change(Phase.CHANGED, changed),)


def test_an_event_whose_description_changes() -> None:
    """This is not reported."""
    assert between((PLANNED,), (replace(PLANNED, description="Soon."),)) == ()


def test_an_event_that_changes_and_starts() -> None:
    """Only the start is reported."""
    changed = between((PLANNED,), (replace(STARTED, resources=("vm-1",)),))
    assert [change.phase for change in changed] == [Phase.STARTED]


def test_ids_compare_without_case() -> None:
    """An id in another case is the same event."""
    assert between((PLANNED,), (replace(PLANNED, id="a"),)) == ()


def test_events_that_are_over_come_first() -> None:
    """Recovery from one event does not wait for preparation for the next."""
    third = replace(PLANNED, id="C")
    assert between((PLANNED, OTHER), (third, OTHER)) == (
        Change(Phase.OVER, PLANNED, cancelled=True),
        Change(Phase.SCHEDULED, third),
    )


def test_an_event_that_reappears() -> None:
    """It is reported as scheduled again."""
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
def test_changes_reproduce_the_document(
    before: tuple[Event, ...], after: tuple[Event, ...]
) -> None:
    """Every difference is reported exactly once."""
    changed = changes(Document(1, before), Document(2, after))
    assert len({change.event.id for change in changed}) == len(changed)
    known = {event.id for event in before}
    for change in changed:
        if change.phase is Phase.OVER:
            known.remove(change.event.id)
        else:
            assert change.event in after
            known.add(change.event.id)
    assert known == {event.id for event in after}
