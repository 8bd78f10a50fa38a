"""Terminate notification: who gets notice, how much, and the queue of deletes (T1, T3 to T6)."""

import pytest

from fairwarning.core.commands import (
    CreateSet,
    Deallocate,
    Delete,
    DeleteSet,
    Operate,
    OperateInstances,
    Redeploy,
    Reimage,
    Restart,
    Scale,
    Start,
    Stop,
    UpdateSet,
    UpgradeInstances,
)
from fairwarning.core.errors import Refused
from fairwarning.core.model import EventStatus, EventType, ImpactKind, Priority, Source, UpgradeMode
from fairwarning.core.record import changed
from fairwarning.core.times import parse_duration
from tests.contract.shortcuts import (
    HOUR,
    MINUTE,
    approve,
    begun,
    cancel,
    hit,
    hits,
    names,
    of,
    only,
    operate,
    set_of,
    shown,
    succeeded,
)
from tests.fixtures.fleet import NOON, FleetHarness

GROUP = "web/0"
SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED


def _delete(harness: FleetHarness, *instances: int, name: str = "") -> None:
    label = name or "-".join(map(str, instances))
    harness.do(OperateInstances(set="web", operation=label, action=Delete, instances=instances))


@pytest.mark.spec("T1")
@pytest.mark.parametrize("minutes", range(5, 16))
def test_five_to_fifteen_minutes(minutes: int) -> None:
    """PT5M to PT15M are notice, and deletes get exactly as much."""
    seconds = parse_duration(f"PT{minutes}M")
    with FleetHarness() as harness:
        set_of(harness, 1, terminate_seconds=seconds)
        _delete(harness, 0)
        assert only(harness, GROUP).not_before == NOON + 60 * minutes


@pytest.mark.spec("T1")
@pytest.mark.parametrize("text", ["PT4M59S", "PT1S", "PT15M1S", "PT1H", "P1D"])
def test_anything_else_is_refused_with_the_range(text: str) -> None:
    """A duration outside the range is refused, and the answer says what is allowed."""
    seconds = parse_duration(text)
    with FleetHarness() as harness:
        set_of(harness, 1)
        for wish in (
            UpdateSet(set="web", terminate_seconds=seconds),
            CreateSet(set="db", capacity=1, terminate_seconds=seconds),
        ):
            error = harness.refusal(wish)
            assert error.status == 400
            assert "PT5M to PT15M" in error.message
        assert harness.scale_set("db") is None


@pytest.mark.spec("T1")
@pytest.mark.parametrize("text", ["10", "5M", "PT", "P", "-PT5M", "PT5.5M", "pt5m", "PT5M ", ""])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """A notice is written as an ISO 8601 duration and no other way."""
    with pytest.raises(Refused) as refused:
        parse_duration(text)
    assert refused.value.status == 400


@pytest.mark.spec("T1", "T4")
def test_no_notice_without_the_setting() -> None:
    """Where the profile is off, a delete happens at once, without an event."""
    with FleetHarness() as harness:
        set_of(harness, 2, terminate_seconds=0)
        _delete(harness, 0)
        assert harness.events(GROUP) == []
        assert hits(harness) == [("web_0", ImpactKind.DELETE)]


@pytest.mark.spec("T3")
def test_a_changed_notice_waits_for_the_upgrade() -> None:
    """An instance keeps the notice of the model it follows until it is brought to the new one."""
    with FleetHarness() as harness:
        set_of(harness, 4)
        harness.do(UpdateSet(set="web", terminate_seconds=600))
        harness.do(UpgradeInstances(set="web", instances=(1, 3)))
        _delete(harness, 0, 1)
        assert of(harness, GROUP, "web_0").not_before == NOON + 300
        assert of(harness, GROUP, "web_1").not_before == NOON + 600
        made = harness.scale_set("web")
        assert made is not None
        latest = [m.name for m in harness.machines(GROUP).values() if m.model == made.model]
        assert latest == ["web_1", "web_3"]
        assert made.model == 2  # models are counted, and none comes back
        harness.do(UpdateSet(set="web", terminate_seconds=600))
        assert harness.scale_set("web") == changed(made, version=made.version + 1)


@pytest.mark.spec("T3")
def test_new_instances_follow_the_new_model() -> None:
    """What is created after a change has the new notice; `manualupgrade` brings it to the rest."""
    with FleetHarness() as harness:
        set_of(harness, 1)
        harness.do(UpdateSet(set="web", terminate_seconds=900))
        harness.do(Scale(set="web", operation="grow", capacity=2))
        notices = [machine.terminate_seconds for machine in harness.machines(GROUP).values()]
        assert notices == [300, 900]
        harness.do(UpgradeInstances(set="web"))
        notices = [machine.terminate_seconds for machine in harness.machines(GROUP).values()]
        assert notices == [900, 900]


@pytest.mark.spec("T3")
@pytest.mark.parametrize("mode", UpgradeMode)
def test_automatic_mode_reaches_all_at_once(mode: UpgradeMode) -> None:
    """With upgrade mode Automatic a change applies to every instance, with Manual to none."""
    with FleetHarness() as harness:
        set_of(harness, 2, upgrade=mode)
        harness.do(UpdateSet(set="web", terminate_seconds=0))
        expected = 0 if mode is UpgradeMode.AUTOMATIC else 300
        assert {m.terminate_seconds for m in harness.machines(GROUP).values()} == {expected}


@pytest.mark.spec("T3", "T5")
@pytest.mark.parametrize("seconds", [0, 900])
def test_a_change_moves_no_event_that_exists(seconds: int) -> None:
    """NotBefore of an announced delete cannot be extended, nor taken away."""
    with FleetHarness() as harness:
        set_of(harness, 1, upgrade=UpgradeMode.AUTOMATIC)
        _delete(harness, 0)
        before = only(harness, GROUP)
        harness.do(UpdateSet(set="web", terminate_seconds=seconds))
        assert only(harness, GROUP) == before
        harness.advance(300)
        assert begun(harness) == {"web_0": 300}


@pytest.mark.spec("T4", "E3")
def test_a_terminate_event() -> None:
    """A delete of an instance is announced as Terminate, for it alone, on behalf of the user."""
    with FleetHarness() as harness:
        set_of(harness, 2)
        _delete(harness, 1)
        event = only(harness, GROUP)
        assert (event.type, event.source) == (EventType.TERMINATE, Source.USER)
        assert (event.resources, event.status) == (("web_1",), SCHEDULED)


@pytest.mark.spec("T4")
@pytest.mark.parametrize("how", ["by hand", "scale-in", "the whole set", "in its group"])
def test_every_delete_is_announced(how: str) -> None:
    """By hand, by scaling in, or with the whole set: each instance gets its notice."""
    with FleetHarness() as harness:
        set_of(harness, 2)
        if how == "by hand":
            _delete(harness, 0, 1)
        elif how == "scale-in":
            harness.do(Scale(set="web", operation="op", capacity=0))
        elif how == "the whole set":
            harness.do(DeleteSet(set="web", operation="op"))
        else:
            operate(harness, Delete, GROUP, "web_0", "web_1")
        assert {event.type for event in harness.events(GROUP)} == {EventType.TERMINATE}
        assert sorted(shown(harness, GROUP)) == ["web_0", "web_1"]
        harness.advance(299)
        assert hits(harness) == []
        harness.advance(1)
        assert sorted(hit(harness)) == ["web_0", "web_1"]


@pytest.mark.spec("T4")
@pytest.mark.parametrize("action", [Restart, Redeploy, Reimage, Stop, Deallocate, Start])
def test_nothing_else_is_announced_as_terminate(action: type[Operate]) -> None:
    """Restart and redeploy have events of their own; reimage, stop, deallocate, start have none."""
    with FleetHarness() as harness:
        set_of(harness, 1)
        harness.do(OperateInstances(set="web", operation="op", action=action))
        types = {event.type for event in harness.events(GROUP)}
        own = {Restart: {EventType.REBOOT}, Redeploy: {EventType.REDEPLOY}}
        assert types == own.get(action, set())
        harness.advance(HOUR)
        assert succeeded(harness, "op")
        assert "web_0" in harness.machines(GROUP)


@pytest.mark.spec("T4")
def test_spot_instances_get_no_terminate() -> None:
    """A Spot instance is deleted at once, whatever the profile says."""
    with FleetHarness() as harness:
        set_of(harness, 2, priority=Priority.SPOT)
        _delete(harness, 0)
        assert harness.events(GROUP) == []
        assert hits(harness) == [("web_0", ImpactKind.DELETE)]


@pytest.mark.spec("T5")
def test_approved_means_deleted_then() -> None:
    """Approval at any time before NotBefore deletes the instance then."""
    with FleetHarness() as harness:
        set_of(harness, 1)
        _delete(harness, 0)
        harness.advance(299)
        approve(harness, GROUP)
        assert begun(harness) == {"web_0": 299}
        harness.advance(30)
        assert dict(harness.machines(GROUP)) == {}
        assert succeeded(harness, "0")


@pytest.mark.spec("T5")
def test_not_approved_means_deleted_at_not_before() -> None:
    """Without approval the instance is deleted at NotBefore, no moment earlier."""
    with FleetHarness() as harness:
        set_of(harness, 1, terminate_seconds=900)
        _delete(harness, 0)
        harness.advance(15 * MINUTE - 0.5)
        assert shown(harness, GROUP) == {"web_0": SCHEDULED}
        harness.advance(0.5)
        assert shown(harness, GROUP) == {"web_0": STARTED}
        assert hits(harness) == [("web_0", ImpactKind.DELETE)]


@pytest.mark.spec("T4", "E2")
def test_a_cancelled_delete_leaves_the_instance() -> None:
    """An instance whose delete was cancelled stays, and can be deleted another time."""
    with FleetHarness() as harness:
        set_of(harness, 1)
        _delete(harness, 0, name="first")
        cancel(harness, GROUP, "web_0")
        harness.advance(HOUR)
        assert list(harness.machines(GROUP)) == names("web", [0])
        _delete(harness, 0, name="second")
        assert shown(harness, GROUP) == {"web_0": SCHEDULED}
