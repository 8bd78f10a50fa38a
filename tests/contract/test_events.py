"""The life cycle of events: notice, approval, NotBefore, cancellation (E1 to E4)."""

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
from fairwarning.core.decision import FactType
from fairwarning.core.model import (
    EventStatus,
    EventType,
    ImpactKind,
    Machine,
    Priority,
    Rules,
    ScopeKind,
)
from tests.contract.units import MINUTE
from tests.fixtures.fleet import NOON, FleetHarness

SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED


def _spot(harness: FleetHarness, rules: Rules | None = None) -> None:
    harness.standalone(priority=Priority.SPOT, rules=rules or Rules())
    harness.poll("vm")


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
    harness: FleetHarness,
    kind: type[Operate],
    more: dict[str, object],
    event_type: EventType,
    notice: int,
) -> None:
    """NotBefore is the creation plus the notice of the type."""
    _spot(harness)
    harness.operate(kind, "vm", "vm", **more)  # type: ignore[arg-type]
    event = harness.only_event("vm")
    assert (event.type, event.status) == (event_type, SCHEDULED)
    assert event.not_before == NOON + notice


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
def test_an_event_starts_at_not_before_and_not_earlier(harness: FleetHarness) -> None:
    """Without approval an event starts when NotBefore is reached, never earlier."""
    harness.make_enabled("vm")
    harness.operate(Restart, "vm", "vm")
    before = harness.only_event("vm")
    harness.advance(15 * MINUTE - 0.001)
    assert harness.only_event("vm") == before
    assert harness.impacts() == []
    harness.advance(0.001)
    assert harness.statuses("vm") == {"vm": STARTED}
    assert harness.only_event("vm").id == before.id
    assert harness.impacts() == [("vm", ImpactKind.REBOOT)]
    harness.advance(60)
    assert harness.events("vm") == []
    assert harness.succeeded("op")


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
def test_approving_after_not_before_changes_nothing(harness: FleetHarness) -> None:
    """An approval after NotBefore is accepted and changes nothing."""
    harness.make_enabled("vm")
    harness.operate(Restart, "vm", "vm")
    harness.advance(15 * MINUTE)
    before = harness.scope("vm"), harness.journal()
    harness.approve("vm")
    assert (harness.scope("vm"), harness.journal()) == before


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


@pytest.mark.spec("E4")
def test_an_event_stays_within_one_update_domain(harness: FleetHarness) -> None:
    """An operation over several domains has one event per domain, each with its own start."""
    harness.availability_set(machines=6, domains=3)
    harness.poll("av")
    harness.operate(Restart, "av", "av5", "av0", "av4", "av3", "av1")
    resources = [event.resources for event in harness.events("av")]
    assert resources == [("av0", "av3"), ("av4", "av1"), ("av5",)]
    assert len({event.id for event in harness.events("av")}) == 3
    harness.approve("av", "av4")
    assert harness.impacted() == ["av4", "av1"]
    assert harness.statuses("av")["av0"] is SCHEDULED
    harness.approve("av", "av0", "av5")
    harness.advance(60)
    assert harness.operation("op").done == 5
    assert harness.succeeded("op")


@pytest.mark.spec("E4")
@pytest.mark.parametrize("kind", [Evict, Delete])
def test_evictions_and_deletes_are_announced_for_each_machine(
    harness: FleetHarness, kind: type[Operate]
) -> None:
    """Evictions and deletes have one event per machine, even within a domain."""
    priority = Priority.SPOT if kind is Evict else Priority.REGULAR
    machines = tuple(Machine(name=n, priority=priority, terminate_seconds=300) for n in "ab")
    harness.do(CreateScope(scope="av", kind=ScopeKind.AVAILABILITY_SET, machines=machines))
    harness.poll("av")
    harness.operate(kind, "av", "a", "b")
    assert [event.resources for event in harness.events("av")] == [("a",), ("b",)]


@pytest.mark.spec("E2", "E4")
def test_no_two_events_share_an_id(harness: FleetHarness) -> None:
    """Event ids are unique, whatever the names of scopes and machines are (ID3)."""
    spot = Priority.SPOT
    nasty = (Machine(name="s/ud0", priority=spot, update_domain=1), Machine(name="ud0"))
    for scope in ("s", "op/s", "s/ud0"):
        harness.do(CreateScope(scope=scope, kind=ScopeKind.AVAILABILITY_SET, machines=nasty))
        harness.poll(scope)
        harness.operate(Evict, scope, "s/ud0", name=f"evict {scope.replace('/', ' ')}")
        harness.operate(Restart, scope, "ud0", name=f"op {scope.replace('/', ' ')}")
    ids = [event.id for scope in ("s", "op/s", "s/ud0") for event in harness.events(scope)]
    assert len(set(ids)) == 6
