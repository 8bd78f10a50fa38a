"""What gives way to what: a user leaves degraded hardware, and failing hardware waits for nothing.

The other half, what is refused, is in `test_conflicts.py` (E5).
"""

import pytest

from fairwarning.core.commands import (
    Deallocate,
    Degrade,
    Fail,
    Maintain,
    Operate,
    Redeploy,
    Reimage,
    Restart,
    Stop,
)
from fairwarning.core.decision import FactType
from fairwarning.core.model import EventStatus, EventType, OperationStatus
from tests.contract.units import DAY, MINUTE
from tests.fixtures.fleet import NOON, FleetHarness

pytestmark = pytest.mark.spec("E5")

LEAVING: list[type[Operate]] = [Redeploy, Deallocate, Stop, Reimage]


@pytest.mark.parametrize("platform", [Degrade, Maintain])
@pytest.mark.parametrize("user", LEAVING)
def test_a_user_replaces_a_pending_event_of_the_platform(
    harness: FleetHarness, platform: type[Operate], user: type[Operate]
) -> None:
    """The platform's event is cancelled, the journal says by what, and the user's wish is done."""
    harness.make_enabled("vm")
    harness.operate(platform, "vm", "vm", name="platform")
    event = harness.only_event("vm").id
    harness.operate(user, "vm", "vm", name="user")
    assert harness.statuses("vm") == ({"vm": EventStatus.SCHEDULED} if user is Redeploy else {})
    assert event not in harness.scope("vm").events
    (left,) = [
        entry.line.fact.detail
        for entry in harness.journal(event)
        if entry.line.fact.type is FactType.CANCELLED
    ]
    assert left == f"replaced by {user.__name__.lower()}"
    assert harness.operation("platform").status is OperationStatus.CANCELED
    harness.advance(20 * MINUTE)
    assert harness.impacts() == [("vm", user.__name__.lower())]
    assert harness.succeeded("user")


@pytest.mark.parametrize(("lead", "moved"), [(DAY, 0), (11 * MINUTE, 9 * MINUTE)])
def test_others_of_a_replaced_event_keep_its_time(
    harness: FleetHarness, lead: int, moved: int
) -> None:
    """One machine leaves; the others are announced anew for that time, or later for full notice."""
    harness.availability_set(machines=2, domains=1)
    harness.poll("av")
    announced = int(NOON) + lead
    command = Degrade(
        scope="av", operation="platform", machines=("av0", "av1"), not_before=announced
    )
    harness.do(command)
    harness.advance(10 * MINUTE)
    harness.operate(Deallocate, "av", "av0", name="user")
    assert harness.statuses("av") == {"av1": EventStatus.SCHEDULED}
    assert harness.only_event("av").not_before == announced + moved
    harness.advance(2 * DAY)
    assert ("av1", "redeploy") in harness.impacts()


@pytest.mark.parametrize("first", [Restart, Redeploy, Maintain])
def test_a_failure_interrupts_work_in_progress(harness: FleetHarness, first: type[Operate]) -> None:
    """Hardware fails during a reboot: the reboot has failed, and the machine is redeployed."""
    harness.make_enabled("vm")
    harness.operate(first, "vm", "vm", name="first")
    harness.approve("vm")
    harness.operate(Fail, "vm", "vm", name="failure")
    assert harness.operation("first").status is OperationStatus.FAILED
    assert "interrupted" in harness.operation("first").error
    event = harness.only_event("vm")
    assert (event.type, event.status) == (EventType.REDEPLOY, EventStatus.STARTED)
    harness.advance(20 * MINUTE)
    assert harness.succeeded("failure")
    assert harness.events("vm") == []
