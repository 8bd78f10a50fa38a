"""The sources of events, and their events on the wire (E3, E8)."""

import pytest

from fairwarning.core.commands import (
    Deallocate,
    Degrade,
    Evict,
    Fail,
    Operate,
    Recommend,
    Redeploy,
    Restart,
    Start,
    Stop,
)
from fairwarning.core.decision import FactType
from fairwarning.core.model import (
    EventStatus,
    EventType,
    ImpactKind,
    OperationStatus,
    Priority,
    Rules,
    Source,
)
from tests.contract.units import DAY, MINUTE
from tests.fixtures.fleet import NOON, FleetHarness

SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED
USER, PLATFORM = Source.USER, Source.PLATFORM


def _spot(harness: FleetHarness) -> None:
    harness.standalone(priority=Priority.SPOT)
    harness.poll("vm")


@pytest.mark.spec("E3", "E5")
def test_a_sudden_failure_cancels_pending_events(harness: FleetHarness) -> None:
    """A host failure cancels pending events of its machine."""
    harness.make_enabled("vm")
    harness.operate(Restart, "vm", "vm", name="reboot")
    harness.operate(Fail, "vm", "vm", name="failure")
    assert harness.only_event("vm").operation == "failure"
    assert harness.operation("reboot").status is OperationStatus.CANCELED
    harness.advance(DAY - 1)
    assert harness.impacts() == [("vm", ImpactKind.REDEPLOY)]


@pytest.mark.spec("E3")
@pytest.mark.parametrize("ahead", [10 * MINUTE, 3 * DAY, 7 * DAY])
def test_a_predicted_failure_is_announced_up_to_seven_days_ahead(
    harness: FleetHarness, ahead: int
) -> None:
    """Degraded hardware is announced for the given time, and redeployed then."""
    harness.make_enabled("vm")
    harness.operate(Degrade, "vm", "vm", not_before=int(NOON) + ahead)
    assert harness.only_event("vm").not_before == NOON + ahead
    while harness.clock.now() + DAY / 2 < NOON + ahead:  # keep polling
        harness.advance(DAY / 2)
        harness.poll("vm")
    harness.advance(NOON + ahead - 1 - harness.clock.now())
    assert harness.statuses("vm") == {"vm": SCHEDULED}
    harness.advance(1)
    assert harness.impacts() == [("vm", ImpactKind.REDEPLOY)]


@pytest.mark.spec("E3")
@pytest.mark.parametrize("ahead", [7 * DAY + 1, 10 * MINUTE - 1, 0, -1])
def test_a_predicted_failure_keeps_within_notice_and_a_week(
    harness: FleetHarness, ahead: int
) -> None:
    """More than seven days, or less than the notice, is refused with the allowed range."""
    harness.make_enabled("vm")
    wrong = Degrade(scope="vm", operation="op", machines=("vm",), not_before=int(NOON) + ahead)
    error = harness.refusal(wrong)
    assert (error.code, error.status) == ("BadNotBefore", 400)
    assert str(int(NOON) + 600) in error.message
    assert str(int(NOON) + 7 * DAY) in error.message
    assert harness.events("vm") == []


@pytest.mark.spec("E3")
@pytest.mark.parametrize("action", [Evict, Recommend])
def test_only_spot_machines_are_evicted(harness: FleetHarness, action: type[Operate]) -> None:
    """A regular machine is never preempted."""
    harness.make_enabled("vm")
    error = harness.refusal(action(scope="vm", operation="op", machines=("vm",)))
    assert (error.code, error.status) == ("NotSpot", 409)


@pytest.mark.spec("E3", "M9")
@pytest.mark.parametrize("end", ["approved", "timed out", "cancelled"])
def test_a_recommendation_has_no_impact(harness: FleetHarness, end: str) -> None:
    """A rebalance recommendation ends without any impact on the machine."""
    _spot(harness)
    harness.operate(Recommend, "vm", "vm")
    assert harness.only_event("vm").type is EventType.SPOT_REBALANCE
    if end == "approved":
        harness.approve("vm")
    elif end == "cancelled":
        harness.cancel("vm", "vm")
    else:
        harness.advance(15 * MINUTE)
    assert harness.events("vm") == []
    assert harness.impacts() == []
    assert harness.poll("vm")["DocumentIncarnation"] == 3
    harness.operate(Recommend, "vm", "vm", name="again")
    assert harness.statuses("vm") == {"vm": SCHEDULED}


@pytest.mark.spec("E3", "M9")
@pytest.mark.parametrize(
    ("action", "power"),
    [(Evict, "deallocated"), (Deallocate, "deallocated"), (Stop, "stopped")],
)
def test_a_recommendation_ends_when_its_machine_no_longer_runs(
    harness: FleetHarness, action: type[Operate], power: str
) -> None:
    """It leaves the document, and the journal says why; a start does not bring it back."""
    _spot(harness)
    harness.operate(Recommend, "vm", "vm", name="advice")
    advice = harness.only_event("vm").id
    harness.operate(action, "vm", "vm", name="end")
    harness.advance(2 * MINUTE)
    assert harness.machines("vm")["vm"].power == power
    assert harness.poll("vm", "2024-07-09")["Events"] == []
    last = harness.journal(advice)[-1].line.fact
    assert (last.type, last.detail) == (FactType.LAPSED, f"the machine was {power}")
    harness.operate(Start, "vm", "vm", name="start")
    harness.advance(MINUTE)
    assert harness.events("vm") == []


AUTOMATIC = {
    Restart: (Rules(approve_reboot=True), Rules(approve_redeploy=True)),
    Redeploy: (Rules(approve_redeploy=True), Rules(approve_reboot=True)),
}


@pytest.mark.spec("E8")
@pytest.mark.parametrize("action", [Restart, Redeploy])
def test_automatic_approval(action: type[Operate]) -> None:
    """With automatic approval of its kind a user's operation appears as Started at once."""
    automatic, other = AUTOMATIC[action]
    for rules, status in ((automatic, STARTED), (other, SCHEDULED)):
        with FleetHarness() as harness:
            harness.standalone(rules=rules)
            before = harness.poll("vm")["DocumentIncarnation"]
            harness.operate(action, "vm", "vm")
            assert harness.statuses("vm") == {"vm": status}
            assert harness.poll("vm")["DocumentIncarnation"] == before + 1
            assert harness.impacted() == (["vm"] if status is STARTED else [])
