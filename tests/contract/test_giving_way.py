"""What gives way to what: a user leaves degraded hardware, and failing hardware waits for nothing.

The other half, what is refused, is in `test_conflicts.py` (E5).
"""

import pytest

from fairwarning.core.commands import (
    Deallocate,
    Degrade,
    Delete,
    Fail,
    Maintain,
    Operate,
    Redeploy,
    Reimage,
    Restart,
    Stop,
)
from fairwarning.core.decision import FactType
from fairwarning.core.model import EventStatus, EventType, ImpactKind, OperationStatus, Source
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


def test_a_redeploy_of_the_user_still_gives_notice(harness: FleetHarness) -> None:
    """Only the platform's event is gone: the guest is told of the redeploy that replaced it."""
    harness.make_enabled("vm")
    harness.operate(Degrade, "vm", "vm", name="platform")
    harness.operate(Redeploy, "vm", "vm", name="user")
    event = harness.only_event("vm")
    assert (event.type, event.source, event.status) == (
        EventType.REDEPLOY,
        Source.USER,
        EventStatus.SCHEDULED,
    )


@pytest.mark.parametrize("user", LEAVING)
def test_a_user_does_not_replace_what_another_user_asked_for(
    harness: FleetHarness, user: type[Operate]
) -> None:
    """A pending event of a user stays, and the second wish is refused."""
    harness.make_enabled("vm")
    harness.operate(Restart, "vm", "vm", name="first")
    command = user(scope="vm", operation="second", machines=("vm",))
    assert harness.refusal(command).code == "MachineBusy"


@pytest.mark.parametrize("user", LEAVING)
def test_a_user_does_not_interrupt_what_the_platform_has_started(
    harness: FleetHarness, user: type[Operate]
) -> None:
    """An impact in progress must end first."""
    harness.make_enabled("vm")
    harness.operate(Maintain, "vm", "vm", name="platform", kind=ImpactKind.REBOOT)
    harness.approve("vm")
    command = user(scope="vm", operation="user", machines=("vm",))
    assert harness.refusal(command).code == "MachineBusy"


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


@pytest.mark.parametrize("notice", [0, 300], ids=["in progress", "pending"])
def test_a_failure_does_not_stop_a_delete(harness: FleetHarness, notice: int) -> None:
    """What is being deleted needs no repair."""
    harness.standalone(terminate_seconds=notice)
    harness.poll("vm")
    harness.operate(Delete, "vm", "vm", name="delete")
    command = Fail(scope="vm", operation="failure", machines=("vm",))
    assert harness.refusal(command).code == "MachineBusy"


@pytest.mark.spec("E3")
def test_an_event_ends_without_the_machine_whose_hardware_failed(harness: FleetHarness) -> None:
    """A reboot of two machines is over when the other one is done; the failure has its own."""
    harness.availability_set(machines=2, domains=1)
    harness.poll("av")
    harness.operate(Restart, "av", "av0", "av1", name="restart")
    harness.approve("av")
    harness.operate(Fail, "av", "av0", name="failure")
    harness.advance(MINUTE)
    assert harness.only_event("av").operation == "failure"
