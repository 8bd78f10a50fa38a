"""The life cycle of events: notice, approval, NotBefore, cancellation, the end (E1 to E4, M12)."""

import math

import pytest

from fairwarning.core.commands import Approve, Cancel, Configure, Evict, Maintain, Redeploy, Restart
from fairwarning.core.decision import FactType
from fairwarning.core.errors import Refused
from fairwarning.core.model import EventStatus, Priority, Rules
from tests.contract.units import MINUTE
from tests.fixtures.fleet import NOON, FleetHarness

SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED


def _spot(harness: FleetHarness, rules: Rules | None = None) -> None:
    harness.standalone(priority=Priority.SPOT, rules=rules or Rules())
    harness.poll("vm")


@pytest.mark.spec("E1")
def test_notice_is_a_setting() -> None:
    """Each is a setting of the scope, from a second on; a change does not move existing events."""
    rules = Rules(freeze_seconds=1, reboot_seconds=70, redeploy_seconds=80, preempt_seconds=90)
    for kind, notice in ((Maintain, 1), (Restart, 70), (Redeploy, 80), (Evict, 90)):
        with FleetHarness() as harness:
            _spot(harness, rules=rules)
            harness.operate(kind, "vm", "vm")
            harness.do(Configure(scope="vm", rules=Rules()))
            assert harness.only_event("vm").not_before == NOON + notice


@pytest.mark.spec("E1", "M8")
@pytest.mark.parametrize("fraction", [0.001, 0.25, 0.999])
def test_not_before_rounds_up(fraction: float) -> None:
    """NotBefore is rounded up to whole seconds, so notice is never too short."""
    with FleetHarness(start=NOON + fraction) as harness:
        harness.make_enabled("vm")
        harness.operate(Restart, "vm", "vm")
        event = harness.only_event("vm")
        assert event.not_before == math.ceil(NOON + fraction + 15 * MINUTE)
        harness.advance(15 * MINUTE)  # the notice is over, but NotBefore was rounded up
        assert harness.statuses("vm") == {"vm": SCHEDULED}
        harness.advance(1 - fraction)
        assert harness.statuses("vm") == {"vm": STARTED}


@pytest.mark.spec("E2")
def test_approving_again_changes_nothing(harness: FleetHarness) -> None:
    """Approving again, after the start, or in lower case, has no further effect."""
    harness.make_enabled("vm")
    harness.operate(Restart, "vm", "vm")
    name = harness.only_event("vm").id
    harness.do(Approve(scope="vm", events=(name.lower(),)))
    after = harness.scope("vm")
    for again in (name, name.lower(), name.title()):
        harness.do(Approve(scope="vm", events=(again,)))
    harness.do(Approve(scope="vm", events=(name, name.lower())))
    assert harness.scope("vm") == after
    assert harness.impacted() == ["vm"]
    assert harness.facts(FactType.APPROVED, FactType.STARTED) == [
        FactType.APPROVED,
        FactType.STARTED,
    ]


@pytest.mark.spec("E2")
def test_a_started_event_cannot_be_cancelled(harness: FleetHarness) -> None:
    """Cancelling a started event is a conflict."""
    harness.make_enabled("vm")
    harness.operate(Restart, "vm", "vm")
    harness.approve("vm")
    event = harness.only_event("vm")
    assert harness.refusal(Cancel(scope="vm", event=event.id)).status == 409
    assert harness.only_event("vm") == event
    harness.advance(60)
    assert harness.refusal(Cancel(scope="vm", event=event.id)).status == 404
    assert harness.succeeded("op")


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


@pytest.mark.spec("M12")
def test_an_event_that_just_ended_may_be_approved(harness: FleetHarness) -> None:
    """Clients repeat an approval while the event is Started; nothing changes."""
    event = _ended(harness)
    before = harness.scope("vm"), harness.journal()
    harness.advance(10 * MINUTE - 1)
    harness.approve_as_machine("vm", event.lower())
    assert (harness.scope("vm"), harness.journal()) == before


@pytest.mark.spec("M12")
def test_it_outlives_a_restart_of_the_service(harness: FleetHarness) -> None:
    """The answer is the same after a restart."""
    event = _ended(harness)
    harness.restart()
    harness.approve_as_machine("vm", event)


@pytest.mark.spec("M12")
def test_another_scope_still_may_not_approve(harness: FleetHarness) -> None:
    """An ended event of another scope is as unknown as any."""
    event = _ended(harness)
    harness.make_enabled("other")
    assert _refused(harness, "other", event)


@pytest.mark.spec("M12")
def test_an_ended_and_a_scheduled_event_together(harness: FleetHarness) -> None:
    """One approval may name both; the scheduled one starts."""
    ended = _ended(harness)
    harness.operate(Restart, "vm", "vm", name="again")
    scheduled = harness.only_event("vm").id
    harness.approve_as_machine("vm", ended, scheduled)
    assert harness.statuses("vm") == {"vm": EventStatus.STARTED}


@pytest.mark.spec("M12")
def test_ids_of_two_fleets_differ() -> None:
    """The same names, operations and times in another fleet give other event ids (E2)."""
    ids = []
    for _ in range(2):
        with FleetHarness(secret=None) as harness:
            harness.make_enabled("vm")
            harness.operate(Restart, "vm", "vm")
            ids.append(harness.only_event("vm").id)
    assert ids[0] != ids[1]
