"""The transition table: transitions that are not in it cannot happen (IL1)."""

from collections.abc import Callable
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairwarning.core.errors import Bug
from fairwarning.core.lifecycle import ScopeDraft, whole_seconds
from fairwarning.core.model import (
    Event,
    EventStatus,
    EventType,
    ImpactKind,
    Machine,
    Scope,
    ScopeKind,
    Source,
)
from fairwarning.core.record import changed
from fairwarning.core.transitions import TRANSITIONS, EventTransition, next_status
from tests.fixtures.fleet import NOON

SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED
PAIRS = list(product([None, SCHEDULED, STARTED], EventTransition))

pytestmark = pytest.mark.spec("E2")


def _event(status: EventStatus = SCHEDULED) -> Event:
    return Event(
        id="E",
        type=EventType.REBOOT,
        status=status,
        source=Source.USER,
        resources=("a", "b"),
        created_at=NOON,
        not_before=int(NOON) + 900,
        operation="op",
        impact=ImpactKind.REBOOT,
    )


def _draft(now: float = NOON) -> ScopeDraft:
    machines = {name: Machine(name=name) for name in "ab"}
    return ScopeDraft(Scope(id="s", kind=ScopeKind.AVAILABILITY_SET, machines=machines), now)


def _with(status: EventStatus) -> tuple[ScopeDraft, Event]:
    draft = _draft()
    if status is SCHEDULED:
        draft.announce(_event())
    else:
        draft.announce_started(_event(STARTED))
    return draft, draft.events["E"]


def test_the_table_has_the_transitions_of_the_contract() -> None:
    """There are six transitions: announce, strike, start, cancel, lapse and end."""
    allowed = {
        (state, transition): to
        for state, transitions in TRANSITIONS.items()
        for transition, to in transitions.items()
    }
    assert allowed == {
        (None, EventTransition.ANNOUNCE): SCHEDULED,
        (None, EventTransition.APPEAR_STARTED): STARTED,
        (SCHEDULED, EventTransition.START): STARTED,
        (SCHEDULED, EventTransition.CANCEL): None,
        (SCHEDULED, EventTransition.LAPSE): None,
        (STARTED, EventTransition.END): None,
    }


@pytest.mark.parametrize(("status", "transition"), PAIRS)
def test_every_other_transition_is_refused(
    status: EventStatus | None, transition: EventTransition
) -> None:
    """A pair that is not in the table raises an error that names both."""
    if transition in TRANSITIONS[status]:
        assert next_status(status, transition) is TRANSITIONS[status][transition]
        return
    with pytest.raises(Bug) as broken:
        next_status(status, transition)
    assert str(transition) in broken.value.message
    assert str(status) in broken.value.message


def _start_again(draft: ScopeDraft, event: Event) -> None:
    draft.start(changed(event, approved_by="m"), "why")


MISUSES: dict[str, tuple[EventStatus | None, str, Callable[[ScopeDraft, Event], None]]] = {
    "announce as Started": (None, "does not make", lambda d, _: d.announce(_event(STARTED))),
    "strike as Scheduled": (None, "does not make", lambda d, _: d.announce_started(_event())),
    "announce twice": (SCHEDULED, "already an event", lambda d, _: d.announce(_event())),
    "strike what is there": (
        STARTED,
        "already an event",
        lambda d, _: d.announce_started(_event(STARTED)),
    ),
    "start too early": (SCHEDULED, "was not approved", lambda d, e: d.start(e, "why")),
    "time out too early": (SCHEDULED, "was not approved", lambda d, e: d.time_out(e)),
    "start again": (STARTED, "no transition", _start_again),
    "cancel what has started": (STARTED, "no transition", lambda d, e: d.cancel(e, "why")),
    "leave by starting": (
        SCHEDULED,
        "does not end",
        lambda d, e: d._remove_event(e, EventTransition.START, ""),
    ),
    "a second impact": (
        SCHEDULED,
        "unfinished impact",
        lambda d, _: d.add_impact("a", ImpactKind.STOP, "o", Source.USER, duration_seconds=-1),
    ),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_misuse_is_refused(misuse: str) -> None:
    """The methods of a draft check their own preconditions; a violation is a bug."""
    status, text, transition = MISUSES[misuse]
    draft, event = _with(status) if status else (_draft(), _event())
    with pytest.raises(Bug, match=text):
        transition(draft, event)


@given(st.floats(min_value=0, max_value=4e9))
def test_whole_seconds_round_up(moment: float) -> None:
    """The result is never earlier than the moment, and less than a second later."""
    assert whole_seconds(moment) - 1 < moment <= whole_seconds(moment)
