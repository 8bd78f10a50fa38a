"""The life cycle of events: notice, approval, NotBefore, cancellation (E1 to E4)."""

import math

import pytest

from fairwarning.core.commands import (
    Approve,
    Cancel,
    Configure,
    Delete,
    Evict,
    Maintain,
    Redeploy,
    Restart,
)
from fairwarning.core.decision import FactType
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


@pytest.mark.spec("E2", "T6")
def test_approving_again_while_others_are_awaited(harness: FleetHarness) -> None:
    """Repeated approvals of a waiting event have no further effect."""
    harness.make_scale_set(2)
    harness.operate(Delete, "web/0", "web_0", "web_1")
    incarnation = harness.scope("web/0").incarnation
    for _ in range(3):
        harness.approve("web/0", "web_0")
    assert harness.facts(FactType.APPROVED) == [FactType.APPROVED]
    assert harness.scope("web/0").incarnation == incarnation  # as the document does not show it
    assert harness.impacts() == []


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
