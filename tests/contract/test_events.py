"""Events from their creation to their end: notice, approval, NotBefore, cancellation (E1 to E4)."""

import math

import pytest

from fairwarning.core.commands import (
    Approve,
    Cancel,
    Configure,
    CreateScope,
    Degrade,
    Delete,
    Evict,
    Maintain,
    Operate,
    Redeploy,
    Restart,
)
from fairwarning.core.decision import Did
from fairwarning.core.model import (
    EventStatus,
    EventType,
    ImpactKind,
    Machine,
    OperationStatus,
    Priority,
    Rules,
    ScopeKind,
)
from tests.contract.stage import (
    HOUR,
    MINUTE,
    approve,
    begun,
    cancel,
    hit,
    hits,
    only,
    operate,
    polled,
    set_of,
    shown,
    succeeded,
    told,
)
from tests.fixtures.fleet import NOON, FleetHarness

SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED


def _spot(bed: FleetHarness, rules: Rules | None = None) -> None:
    bed.standalone(priority=Priority.SPOT, rules=rules or Rules())
    bed.poll("vm")


NOTICES: list[tuple[type[Operate], dict[str, object], EventType, int]] = [
    (Maintain, {}, EventType.FREEZE, 15 * MINUTE),
    (Maintain, {"migration": True}, EventType.FREEZE, 15 * MINUTE),
    (Maintain, {"kind": ImpactKind.REBOOT}, EventType.REBOOT, 15 * MINUTE),
    (Maintain, {"kind": ImpactKind.REDEPLOY}, EventType.REDEPLOY, 10 * MINUTE),
    (Restart, {}, EventType.REBOOT, 15 * MINUTE),
    (Redeploy, {}, EventType.REDEPLOY, 10 * MINUTE),
    (Degrade, {}, EventType.REDEPLOY, 10 * MINUTE),
    (Evict, {}, EventType.PREEMPT, 30),
]


@pytest.mark.spec("E1")
@pytest.mark.parametrize(("kind", "more", "event_type", "notice"), NOTICES)
def test_notice_by_type(
    kind: type[Operate], more: dict[str, object], event_type: EventType, notice: int
) -> None:
    """NotBefore is the creation plus the notice of the type."""
    with FleetHarness() as bed:
        _spot(bed)
        operate(bed, kind, "vm", "vm", **more)  # type: ignore[arg-type]
        event = only(bed, "vm")
        assert (event.type, event.status) == (event_type, SCHEDULED)
        assert event.not_before == NOON + notice


@pytest.mark.spec("E1")
def test_notice_is_a_setting() -> None:
    """Each notice can be set for a scope, and a change of it moves no event that exists."""
    rules = Rules(freeze_seconds=60, reboot_seconds=70, redeploy_seconds=80, preempt_seconds=90)
    for kind, notice in ((Maintain, 60), (Restart, 70), (Redeploy, 80), (Evict, 90)):
        with FleetHarness() as bed:
            _spot(bed, rules=rules)
            operate(bed, kind, "vm", "vm")
            bed.do(Configure(scope="vm", rules=Rules()))
            assert only(bed, "vm").not_before == NOON + notice


@pytest.mark.spec("E1", "M8")
@pytest.mark.parametrize("fraction", [0.001, 0.25, 0.999])
def test_not_before_rounds_up(fraction: float) -> None:
    """The wire says whole seconds, so a NotBefore is rounded up: notice is never short."""
    with FleetHarness(start=NOON + fraction) as bed:
        polled(bed, "vm")
        operate(bed, Restart, "vm", "vm")
        event = only(bed, "vm")
        assert event.not_before == math.ceil(NOON + fraction + 15 * MINUTE)
        bed.advance(15 * MINUTE)  # by our clock the notice is over, but not what was published
        assert shown(bed, "vm") == {"vm": SCHEDULED}
        bed.advance(1 - fraction)
        assert shown(bed, "vm") == {"vm": STARTED}


@pytest.mark.spec("E2")
def test_starts_at_not_before_and_no_moment_earlier() -> None:
    """Without approval an event starts when NotBefore is reached, never earlier."""
    with FleetHarness() as bed:
        polled(bed, "vm")
        operate(bed, Restart, "vm", "vm")
        before = only(bed, "vm")
        bed.advance(15 * MINUTE - 0.001)
        assert only(bed, "vm") == before
        assert hits(bed) == []
        bed.advance(0.001)
        assert shown(bed, "vm") == {"vm": STARTED}
        assert only(bed, "vm").id == before.id
        assert hits(bed) == [("vm", ImpactKind.REBOOT)]
        bed.advance(60)
        assert bed.events("vm") == []
        assert succeeded(bed, "op")


@pytest.mark.spec("E2")
def test_starts_at_once_when_approved() -> None:
    """An approved event starts then, keeps its id, and is gone when it was carried out."""
    with FleetHarness() as bed:
        polled(bed, "vm")
        operate(bed, Redeploy, "vm", "vm")
        scheduled = only(bed, "vm")
        bed.advance(30)
        approve(bed, "vm")
        started = only(bed, "vm")
        assert (started.id, started.status) == (scheduled.id, STARTED)
        assert begun(bed) == {"vm": 30}
        bed.advance(240)
        assert bed.events("vm") == []
        assert bed.operation("op").ended_at == NOON + 270


@pytest.mark.spec("E2")
def test_approving_again_changes_nothing() -> None:
    """Approving twice, or after the start, or in lower case, has the effect of approving once."""
    with FleetHarness() as bed:
        polled(bed, "vm")
        operate(bed, Restart, "vm", "vm")
        name = only(bed, "vm").id
        bed.do(Approve(scope="vm", events=(name.lower(),)))
        after = bed.scope("vm")
        for again in (name, name.lower(), name.title()):
            bed.do(Approve(scope="vm", events=(again,)))
        bed.do(Approve(scope="vm", events=(name, name.lower())))
        assert bed.scope("vm") == after
        assert hit(bed) == ["vm"]
        assert told(bed, Did.APPROVED, Did.STARTED) == [Did.APPROVED, Did.STARTED]


@pytest.mark.spec("E2")
def test_approving_what_started_by_itself() -> None:
    """An approval that comes after NotBefore is accepted and changes nothing."""
    with FleetHarness() as bed:
        polled(bed, "vm")
        operate(bed, Restart, "vm", "vm")
        bed.advance(15 * MINUTE)
        before = bed.scope("vm"), bed.journal()
        approve(bed, "vm")
        assert (bed.scope("vm"), bed.journal()) == before


@pytest.mark.spec("E2", "T6")
def test_approving_again_while_others_are_awaited() -> None:
    """An approved event that still waits is approved once, whoever repeats it."""
    with FleetHarness() as bed:
        set_of(bed, 2)
        operate(bed, Delete, "web/0", "web_0", "web_1")
        for _ in range(3):
            approve(bed, "web/0", "web_0")
        assert told(bed, Did.APPROVED) == [Did.APPROVED]
        assert hits(bed) == []


@pytest.mark.spec("E2")
def test_a_list_with_one_unknown_id_approves_nothing() -> None:
    """Several ids are approved all together or, if one is unknown, not at all."""
    with FleetHarness() as bed:
        bed.availability_set()
        bed.poll("av")
        operate(bed, Restart, "av", "av0", "av1")
        known = tuple(event.id for event in bed.events("av"))
        before = bed.scope("av")
        error = bed.refusal(Approve(scope="av", events=(*known, "0" * 36)))
        assert (error.code, error.status) == ("UnknownEvent", 400)
        assert bed.scope("av") == before
        assert hits(bed) == []
        bed.do(Approve(scope="av", events=known))
        assert sorted(hit(bed)) == ["av0", "av1"]


@pytest.mark.spec("E2")
def test_a_scheduled_event_can_be_cancelled() -> None:
    """A cancelled event is gone, nothing happens to its machine, its operation ends Canceled."""
    with FleetHarness() as bed:
        polled(bed, "vm")
        operate(bed, Restart, "vm", "vm")
        cancel(bed, "vm", "vm")
        assert bed.events("vm") == []
        bed.advance(HOUR)
        assert hits(bed) == []
        assert bed.operation("op").status is OperationStatus.CANCELED
        operate(bed, Restart, "vm", "vm", name="next")  # and the machine is free again
        assert shown(bed, "vm") == {"vm": SCHEDULED}


@pytest.mark.spec("E2")
def test_a_started_event_cannot_be_cancelled() -> None:
    """What has started runs to its end: cancelling it is a conflict."""
    with FleetHarness() as bed:
        polled(bed, "vm")
        operate(bed, Restart, "vm", "vm")
        approve(bed, "vm")
        event = only(bed, "vm")
        assert bed.refusal(Cancel(scope="vm", event=event.id)).status == 409
        assert only(bed, "vm") == event
        bed.advance(60)
        assert bed.refusal(Cancel(scope="vm", event=event.id)).status == 404
        assert succeeded(bed, "op")


@pytest.mark.spec("E4")
def test_an_event_stays_within_one_update_domain() -> None:
    """An operation over several domains becomes an event for each, and each is its own to start."""
    with FleetHarness() as bed:
        bed.availability_set(machines=6, domains=3)
        bed.poll("av")
        operate(bed, Restart, "av", "av5", "av0", "av4", "av3", "av1")
        resources = [event.resources for event in bed.events("av")]
        assert resources == [("av0", "av3"), ("av4", "av1"), ("av5",)]
        assert len({event.id for event in bed.events("av")}) == 3
        approve(bed, "av", "av4")
        assert hit(bed) == ["av4", "av1"]
        assert shown(bed, "av")["av0"] is SCHEDULED
        approve(bed, "av", "av0", "av5")
        bed.advance(60)
        assert bed.operation("op").done == 5
        assert succeeded(bed, "op")


@pytest.mark.spec("E4")
@pytest.mark.parametrize("kind", [Evict, Delete])
def test_evictions_and_deletes_are_announced_for_each_machine(kind: type[Operate]) -> None:
    """Machines that leave for good leave one by one, even within a domain."""
    priority = Priority.SPOT if kind is Evict else Priority.REGULAR
    with FleetHarness() as bed:
        machines = tuple(Machine(name=n, priority=priority, terminate_seconds=300) for n in "ab")
        bed.do(CreateScope(scope="av", kind=ScopeKind.AVAILABILITY_SET, machines=machines))
        bed.poll("av")
        operate(bed, kind, "av", "a", "b")
        assert [event.resources for event in bed.events("av")] == [("a",), ("b",)]


@pytest.mark.spec("E2")
def test_the_order_of_resources_never_changes() -> None:
    """Resources stand in one order through an event's whole life (M20 asks the same)."""
    with FleetHarness() as bed:
        bed.availability_set(machines=4, domains=1)
        bed.poll("av")
        operate(bed, Restart, "av", "av2", "av0", "av3", "av1")
        seen = [only(bed, "av").resources]
        approve(bed, "av")
        seen.append(only(bed, "av").resources)
        bed.restart()
        seen.append(only(bed, "av").resources)
        assert seen == [("av2", "av0", "av3", "av1")] * 3


@pytest.mark.spec("E2", "E4")
def test_no_two_events_share_an_id() -> None:
    """Whatever scopes and machines are called, ids do not clash (ID3)."""
    with FleetHarness() as bed:
        spot = Priority.SPOT
        nasty = (Machine(name="s/ud0", priority=spot, update_domain=1), Machine(name="ud0"))
        for scope in ("s", "op/s", "s/ud0"):
            bed.do(CreateScope(scope=scope, kind=ScopeKind.AVAILABILITY_SET, machines=nasty))
            bed.poll(scope)
            operate(bed, Evict, scope, "s/ud0", name=f"evict {scope.replace('/', ' ')}")
            operate(bed, Restart, scope, "ud0", name=f"op {scope.replace('/', ' ')}")
        ids = [event.id for scope in ("s", "op/s", "s/ud0") for event in bed.events(scope)]
        assert len(set(ids)) == 6
