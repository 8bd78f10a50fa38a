"""Approving an event that ended a moment ago (M12)."""

import pytest

from fairwarning.core.commands import Maintain, Restart
from fairwarning.core.errors import Refused
from fairwarning.core.model import EventStatus
from tests.contract.units import MINUTE
from tests.fixtures.fleet import FleetHarness

pytestmark = pytest.mark.spec("M12")


def _refused(harness: FleetHarness, scope: str, *events: str) -> bool:
    try:
        harness.approve_as_machine(scope, *events)
    except Refused as error:
        return error.code == "UnknownEvent"
    return False


def _ended(harness: FleetHarness) -> str:
    """Reboot a machine; return the id of the event, which has just ended."""
    harness.make_enabled("vm")
    harness.operate(Restart, "vm", "vm")
    event = harness.only_event("vm").id
    harness.approve("vm")
    harness.advance(MINUTE)
    assert harness.events("vm") == []
    return event


def test_an_event_that_just_ended_may_be_approved(harness: FleetHarness) -> None:
    """Clients repeat an approval while the event is Started; nothing changes."""
    event = _ended(harness)
    before = harness.scope("vm"), harness.journal()
    harness.advance(10 * MINUTE - 1)
    harness.approve_as_machine("vm", event.lower())
    assert (harness.scope("vm"), harness.journal()) == before


def test_a_cancelled_event_may_be_approved(harness: FleetHarness) -> None:
    """The approval crossed the cancellation."""
    harness.make_enabled("vm")
    harness.operate(Maintain, "vm", "vm")
    event = harness.only_event("vm").id
    harness.cancel("vm", "vm")
    harness.approve_as_machine("vm", event)


def test_it_outlives_a_restart_of_the_service(harness: FleetHarness) -> None:
    """The answer is the same after a restart."""
    event = _ended(harness)
    harness.restart()
    harness.approve_as_machine("vm", event)


def test_another_scope_still_may_not_approve(harness: FleetHarness) -> None:
    """An ended event of another scope is as unknown as any."""
    event = _ended(harness)
    harness.make_enabled("other")
    assert _refused(harness, "other", event)


def test_an_ended_and_a_scheduled_event_together(harness: FleetHarness) -> None:
    """One approval may name both; the scheduled one starts."""
    ended = _ended(harness)
    harness.operate(Restart, "vm", "vm", name="again")
    scheduled = harness.only_event("vm").id
    harness.approve_as_machine("vm", ended, scheduled)
    assert harness.statuses("vm") == {"vm": EventStatus.STARTED}


def test_ids_of_two_fleets_differ() -> None:
    """The same names, operations and times in another fleet give other event ids (E2)."""
    ids = []
    for _ in range(2):
        with FleetHarness(secret=None) as harness:
            harness.make_enabled("vm")
            harness.operate(Restart, "vm", "vm")
            ids.append(harness.only_event("vm").id)
    assert ids[0] != ids[1]
