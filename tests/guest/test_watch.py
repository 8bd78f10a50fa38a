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
