"""Approving an event that ended a moment ago (M12)."""

import pytest

from fairwarning.core.commands import Approve, Maintain, Restart
from fairwarning.core.model import EventStatus
from tests.contract.units import MINUTE
from tests.fixtures.fleet import FleetHarness

pytestmark = pytest.mark.spec("M12")


def _approval(event: str, scope: str = "vm") -> Approve:
    return Approve(scope=scope, events=(event,), actor="machine")


def _ended(harness: FleetHarness) -> str:
    """Reboot a machine; return the id of the event, which has just ended."""
    harness.make_enabled("vm")
    harness.operate(Restart, "vm", "vm")
    event = harness.only_event("vm").id
    harness.approve("vm")
    harness.advance(MINUTE)
    assert harness.events("vm") == []
    return event


def test_an_event_that_just_ended_may_be_approved() -> None:
    """Clients repeat an approval while the event is Started; nothing changes."""
    with FleetHarness() as harness:
        event = _ended(harness)
        before = harness.scope("vm"), harness.journal()
        harness.advance(10 * MINUTE - 1)
        harness.do(_approval(event.lower()))
        assert (harness.scope("vm"), harness.journal()) == before


def test_a_cancelled_event_may_be_approved() -> None:
    """The approval crossed the cancellation."""
    with FleetHarness() as harness:
        harness.make_enabled("vm")
        harness.operate(Maintain, "vm", "vm")
        event = harness.only_event("vm").id
        harness.cancel("vm", "vm")
        harness.do(_approval(event))


def test_after_ten_minutes_it_is_unknown() -> None:
    """The promise is for ten minutes."""
    with FleetHarness() as harness:
        event = _ended(harness)
        harness.advance(10 * MINUTE)
        assert harness.refusal(_approval(event)).code == "UnknownEvent"


def test_it_outlives_a_restart_of_the_service() -> None:
    """The answer is the same after a restart."""
    with FleetHarness() as harness:
        event = _ended(harness)
        harness.restart()
        harness.do(_approval(event))


def test_another_scope_still_may_not_approve() -> None:
    """An ended event of another scope is as unknown as any."""
    with FleetHarness() as harness:
        event = _ended(harness)
        harness.make_enabled("other")
        assert harness.refusal(_approval(event, "other")).code == "UnknownEvent"


def test_an_ended_and_a_scheduled_event_together() -> None:
    """One approval may name both; the scheduled one starts."""
    with FleetHarness() as harness:
        ended = _ended(harness)
        harness.operate(Restart, "vm", "vm", name="again")
        scheduled = harness.only_event("vm").id
        harness.do(Approve(scope="vm", events=(ended, scheduled), actor="machine"))
        assert harness.statuses("vm") == {"vm": EventStatus.STARTED}


def test_the_memory_for_ended_events_is_bounded() -> None:
    """However many events end in ten minutes, a scope remembers at most 256 of them."""
    with FleetHarness() as harness:
        harness.make_enabled("vm")
        for number in range(300):
            harness.operate(Restart, "vm", "vm", name=f"op{number}")
            harness.cancel("vm", "vm")
        assert len(harness.scope("vm").ended) == 256


def test_ids_of_two_fleets_differ() -> None:
    """The same names, operations and times in another fleet give other event ids (E2)."""
    ids = []
    for _ in range(2):
        with FleetHarness(secret=None) as harness:
            harness.make_enabled("vm")
            harness.operate(Restart, "vm", "vm")
            ids.append(harness.only_event("vm").id)
    assert ids[0] != ids[1]
