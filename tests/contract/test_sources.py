"""Where events come from, and what each source looks like on the wire (E3, E8)."""

import pytest

from fairwarning.core.commands import (
    Configure,
    CreateScope,
    Degrade,
    Delete,
    Evict,
    Fail,
    Maintain,
    Operate,
    Recommend,
    Redeploy,
    Restart,
)
from fairwarning.core.model import (
    EventStatus,
    EventType,
    EvictionPolicy,
    ImpactKind,
    Machine,
    OperationStatus,
    Power,
    Priority,
    Rules,
    ScopeKind,
    Source,
)
from tests.contract.shortcuts import (
    DAY,
    MINUTE,
    approve,
    cancel,
    hit,
    hits,
    only,
    operate,
    polled,
    shown,
    succeeded,
)
from tests.fixtures.fleet import NOON, FleetHarness

SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED
USER, PLATFORM = Source.USER, Source.PLATFORM


def _spot(harness: FleetHarness, eviction: EvictionPolicy = EvictionPolicy.DEALLOCATE) -> None:
    harness.standalone(priority=Priority.SPOT, eviction=eviction)
    harness.poll("vm")


SOURCES: list[tuple[type[Operate], dict[str, object], Source, int, str]] = [
    (Restart, {}, USER, -1, "going to be restarted as requested"),
    (Redeploy, {}, USER, -1, "going to be redeployed as requested"),
    (Maintain, {}, PLATFORM, 9, "Host server is undergoing maintenance."),
    (Maintain, {"migration": True}, PLATFORM, 5, "memory-preserving Live Migration"),
    (Maintain, {"duration_seconds": 30}, PLATFORM, 30, "undergoing maintenance"),
    (Maintain, {"kind": ImpactKind.REBOOT}, PLATFORM, -1, "undergoing maintenance"),
    (Degrade, {}, PLATFORM, -1, "emergency repair"),
    (Fail, {}, PLATFORM, -1, "encountered a failure"),
    (Evict, {}, PLATFORM, -1, ""),
]


@pytest.mark.spec("E3", "M6")
@pytest.mark.parametrize(("action", "more", "source", "duration", "text"), SOURCES)
def test_who_wanted_it_and_how_long_it_takes(
    action: type[Operate], more: dict[str, object], source: Source, duration: int, text: str
) -> None:
    """Each source says who wanted it, in words, and how long the machine is going to be away."""
    with FleetHarness() as harness:
        _spot(harness)
        operate(harness, action, "vm", "vm", **more)  # type: ignore[arg-type]
        event = only(harness, "vm")
        assert (event.source, event.duration_seconds) == (source, duration)
        assert text in event.description
        assert bool(text) == bool(event.description)


@pytest.mark.spec("E3")
def test_a_sudden_failure_is_started_when_first_seen() -> None:
    """Hardware that fails gives no notice: a Redeploy that is Started from the first."""
    with FleetHarness() as harness:
        polled(harness, "vm")
        operate(harness, Fail, "vm", "vm")
        event = only(harness, "vm")
        assert (event.type, event.status) == (EventType.REDEPLOY, STARTED)
        assert harness.poll("vm")["Events"][0]["NotBefore"] == ""
        assert hits(harness) == [("vm", ImpactKind.REDEPLOY)]
        harness.advance(240)
        assert harness.events("vm") == []
        assert succeeded(harness, "op")


@pytest.mark.spec("E3", "E5")
def test_a_sudden_failure_does_not_wait_for_what_is_planned() -> None:
    """A machine whose host has failed is not rebooted later on: the pending event is cancelled."""
    with FleetHarness() as harness:
        polled(harness, "vm")
        operate(harness, Restart, "vm", "vm", name="reboot")
        operate(harness, Fail, "vm", "vm", name="failure")
        assert only(harness, "vm").operation == "failure"
        assert harness.operation("reboot").status is OperationStatus.CANCELED
        harness.advance(DAY - 1)
        assert hits(harness) == [("vm", ImpactKind.REDEPLOY)]


@pytest.mark.spec("E3")
@pytest.mark.parametrize("ahead", [10 * MINUTE, 3 * DAY, 7 * DAY])
def test_a_predicted_failure_is_announced_up_to_seven_days_ahead(ahead: int) -> None:
    """Degraded hardware is announced for the moment given, and redeployed then."""
    with FleetHarness() as harness:
        polled(harness, "vm")
        operate(harness, Degrade, "vm", "vm", not_before=int(NOON) + ahead)
        assert only(harness, "vm").not_before == NOON + ahead
        while harness.clock.now() + DAY / 2 < NOON + ahead:  # somebody keeps asking
            harness.advance(DAY / 2)
            harness.poll("vm")
        harness.advance(NOON + ahead - 1 - harness.clock.now())
        assert shown(harness, "vm") == {"vm": SCHEDULED}
        harness.advance(1)
        assert hits(harness) == [("vm", ImpactKind.REDEPLOY)]


@pytest.mark.spec("E3")
@pytest.mark.parametrize("ahead", [7 * DAY + 1, 10 * MINUTE - 1, 0, -1])
def test_a_predicted_failure_keeps_within_notice_and_a_week(ahead: int) -> None:
    """One second past seven days, or less than full notice, is refused with the allowed range."""
    with FleetHarness() as harness:
        polled(harness, "vm")
        wrong = Degrade(scope="vm", operation="op", machines=("vm",), not_before=int(NOON) + ahead)
        error = harness.refusal(wrong)
        assert (error.code, error.status) == ("BadNotBefore", 400)
        assert str(int(NOON) + 600) in error.message
        assert str(int(NOON) + 7 * DAY) in error.message
        assert harness.events("vm") == []


@pytest.mark.spec("E3")
def test_degraded_hardware_can_be_left_early() -> None:
    """Approving a redeploy that is days ahead moves the machine now."""
    with FleetHarness() as harness:
        polled(harness, "vm")
        operate(harness, Degrade, "vm", "vm", not_before=int(NOON) + 7 * DAY)
        approve(harness, "vm")
        assert hits(harness) == [("vm", ImpactKind.REDEPLOY)]


@pytest.mark.spec("E3")
def test_eviction_leaves_a_deallocated_machine() -> None:
    """Policy Deallocate: the machine stays, without power, and can be started again."""
    with FleetHarness() as harness:
        _spot(harness)
        operate(harness, Evict, "vm", "vm")
        harness.advance(30)
        assert hits(harness) == [("vm", ImpactKind.EVICT)]
        harness.advance(10)
        assert harness.machines("vm")["vm"].power is Power.DEALLOCATED
        assert harness.events("vm") == []


@pytest.mark.spec("E3")
def test_eviction_may_delete_the_machine() -> None:
    """Policy Delete: the machine is gone, and a standalone one takes its scope along (IL11)."""
    with FleetHarness() as harness:
        _spot(harness, EvictionPolicy.DELETE)
        operate(harness, Evict, "vm", "vm")
        approve(harness, "vm")
        harness.advance(9)
        assert harness.exists("vm")
        harness.advance(1)
        assert not harness.exists("vm")
        assert succeeded(harness, "op")


@pytest.mark.spec("E3")
@pytest.mark.parametrize("action", [Evict, Recommend])
def test_only_spot_machines_are_evicted(action: type[Operate]) -> None:
    """A regular machine is never preempted."""
    with FleetHarness() as harness:
        polled(harness, "vm")
        error = harness.refusal(action(scope="vm", operation="op", machines=("vm",)))
        assert (error.code, error.status) == ("NotSpot", 409)


@pytest.mark.spec("E3", "M9")
@pytest.mark.parametrize("end", ["approved", "timed out", "cancelled"])
def test_advice_is_followed_by_nothing(end: str) -> None:
    """A rebalance recommendation goes as it came: nothing ever happens to the machine."""
    with FleetHarness() as harness:
        _spot(harness)
        operate(harness, Recommend, "vm", "vm")
        assert only(harness, "vm").type is EventType.SPOT_REBALANCE
        if end == "approved":
            approve(harness, "vm")
        elif end == "cancelled":
            cancel(harness, "vm", "vm")
        else:
            harness.advance(15 * MINUTE)
        assert harness.events("vm") == []
        assert hits(harness) == []
        assert harness.poll("vm")["DocumentIncarnation"] == 3
        operate(harness, Recommend, "vm", "vm", name="again")
        assert shown(harness, "vm") == {"vm": SCHEDULED}


@pytest.mark.spec("E3")
def test_advice_goes_with_the_machine_it_is_for() -> None:
    """No event names a machine that is gone."""
    with FleetHarness() as harness:
        machines = tuple(Machine(name=name, priority=Priority.SPOT) for name in "ab")
        harness.do(CreateScope(scope="av", kind=ScopeKind.AVAILABILITY_SET, machines=machines))
        harness.poll("av")
        operate(harness, Recommend, "av", "a", "b", name="advice")
        operate(harness, Delete, "av", "a", name="delete")
        harness.advance(30)
        assert list(harness.machines("av")) == ["b"]
        assert list(shown(harness, "av")) == ["b"]


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
            operate(harness, action, "vm", "vm")
            assert shown(harness, "vm") == {"vm": status}
            assert harness.poll("vm")["DocumentIncarnation"] == before + 1
            assert hit(harness) == (["vm"] if status is STARTED else [])


@pytest.mark.spec("E8")
@pytest.mark.parametrize(
    ("action", "kind"), [(Maintain, ImpactKind.REBOOT), (Maintain, ImpactKind.REDEPLOY)]
)
def test_automatic_approval_is_for_users_alone(action: type[Operate], kind: ImpactKind) -> None:
    """What the platform plans waits, whatever the owner approves of his own operations."""
    with FleetHarness() as harness:
        harness.standalone(rules=Rules(approve_reboot=True, approve_redeploy=True))
        harness.poll("vm")
        operate(harness, action, "vm", "vm", kind=kind)
        assert shown(harness, "vm") == {"vm": SCHEDULED}


@pytest.mark.spec("E8", "E6")
def test_automatic_approval_takes_no_place_among_the_scheduled() -> None:
    """The limit is on operations that are scheduled; one that starts at once is not."""
    with FleetHarness() as harness:
        harness.availability_set(machines=2, domains=1, user_operations=1)
        harness.poll("av")
        operate(harness, Restart, "av", "av0", name="waits")
        harness.do(Configure(scope="av", rules=Rules(user_operations=1, approve_redeploy=True)))
        operate(harness, Redeploy, "av", "av1", name="at once")
        assert shown(harness, "av") == {"av0": SCHEDULED, "av1": STARTED}
