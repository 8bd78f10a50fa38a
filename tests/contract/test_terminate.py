"""Terminate notification: which deletes get notice, and how much (T1, T3 to T6)."""

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
from fairwarning.core.errors import Conflict
from fairwarning.core.model import EventStatus, EventType, ImpactKind, Priority, UpgradeMode
from fairwarning.core.record import changed
from fairwarning.core.times import parse_duration
from tests.contract.units import HOUR
from tests.fixtures.fleet import NOON, FleetHarness, instance_names

GROUP = "web/0"
SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED


@pytest.mark.spec("T1")
@pytest.mark.parametrize("minutes", range(5, 16))
def test_five_to_fifteen_minutes(harness: FleetHarness, minutes: int) -> None:
    """PT5M to PT15M are valid, and deletes get exactly that notice."""
    seconds = parse_duration(f"PT{minutes}M")
    harness.make_scale_set(1, terminate_seconds=seconds)
    harness.delete_instances(0)
    assert harness.only_event(GROUP).not_before == NOON + 60 * minutes


@pytest.mark.spec("T1")
@pytest.mark.parametrize("text", ["PT4M59S", "PT1S", "PT15M1S", "PT1H", "P1D"])
def test_other_durations_are_refused_with_the_range(harness: FleetHarness, text: str) -> None:
    """A duration outside the range is refused with the allowed range."""
    seconds = parse_duration(text)
    harness.make_scale_set(1)
    for command in (
        UpdateSet(set="web", terminate_seconds=seconds),
        CreateSet(set="db", capacity=1, terminate_seconds=seconds),
    ):
        error = harness.refusal(command)
        assert error.status == 400
        assert "PT5M to PT15M" in error.message
    assert harness.scale_set("db") is None


@pytest.mark.spec("T1", "T4")
def test_no_notice_without_the_setting(harness: FleetHarness) -> None:
    """Without the profile, a delete happens at once and without an event."""
    harness.make_scale_set(2, terminate_seconds=0)
    harness.delete_instances(0)
    assert harness.events(GROUP) == []
    assert harness.impacts() == [("web_0", ImpactKind.DELETE)]


@pytest.mark.spec("T3")
def test_a_changed_notice_waits_for_the_upgrade(harness: FleetHarness) -> None:
    """An instance keeps the notice of its model until it is upgraded."""
    harness.make_scale_set(4)
    harness.do(UpdateSet(set="web", terminate_seconds=600))
    harness.do(UpgradeInstances(set="web", instances=(1, 3)))
    harness.delete_instances(0, 1)
    assert harness.event_of(GROUP, "web_0").not_before == NOON + 300
    assert harness.event_of(GROUP, "web_1").not_before == NOON + 600
    scale_set = harness.scale_set("web")
    assert scale_set is not None
    latest = [
        machine.name
        for machine in harness.machines(GROUP).values()
        if machine.model == scale_set.model
    ]
    assert latest == ["web_1", "web_3"]
    assert scale_set.model == 2  # models are counted, and none comes back
    harness.do(UpdateSet(set="web", terminate_seconds=600))
    assert harness.scale_set("web") == changed(scale_set, version=scale_set.version + 1)


@pytest.mark.spec("T3")
def test_new_instances_follow_the_new_model(harness: FleetHarness) -> None:
    """New instances have the new notice; `manualupgrade` applies it to the others."""
    harness.make_scale_set(1)
    harness.do(UpdateSet(set="web", terminate_seconds=900))
    harness.do(Scale(set="web", operation="grow", capacity=2))
    notices = [machine.terminate_seconds for machine in harness.machines(GROUP).values()]
    assert notices == [300, 900]
    harness.do(UpgradeInstances(set="web"))
    notices = [machine.terminate_seconds for machine in harness.machines(GROUP).values()]
    assert notices == [900, 900]


@pytest.mark.spec("T3")
@pytest.mark.parametrize("mode", UpgradeMode)
def test_automatic_mode_applies_to_all_instances(harness: FleetHarness, mode: UpgradeMode) -> None:
    """With upgrade mode Automatic a change applies to every instance, with Manual to none."""
    harness.make_scale_set(2, upgrade=mode)
    harness.do(UpdateSet(set="web", terminate_seconds=0))
    expected = 0 if mode is UpgradeMode.AUTOMATIC else 300
    assert {m.terminate_seconds for m in harness.machines(GROUP).values()} == {expected}


@pytest.mark.spec("T3", "T5")
@pytest.mark.parametrize("seconds", [0, 900])
def test_a_changed_notice_does_not_move_existing_events(
    harness: FleetHarness, seconds: int
) -> None:
    """A change of the notice does not affect announced deletes."""
    harness.make_scale_set(1, upgrade=UpgradeMode.AUTOMATIC)
    harness.delete_instances(0)
    before = harness.only_event(GROUP)
    harness.do(UpdateSet(set="web", terminate_seconds=seconds))
    assert harness.only_event(GROUP) == before
    harness.advance(300)
    assert harness.impact_times() == {"web_0": 300}


@pytest.mark.spec("T4")
@pytest.mark.parametrize("how", ["by hand", "scale-in", "the whole set", "in its group"])
def test_every_delete_is_announced(harness: FleetHarness, how: str) -> None:
    """Each deleted instance gets notice: by name, by scale-in, or with the whole set."""
    harness.make_scale_set(2)
    if how == "by hand":
        harness.delete_instances(0, 1)
    elif how == "scale-in":
        harness.do(Scale(set="web", operation="op", capacity=0))
    elif how == "the whole set":
        harness.do(DeleteSet(set="web", operation="op"))
    else:
        harness.operate(Delete, GROUP, "web_0", "web_1")
    assert {event.type for event in harness.events(GROUP)} == {EventType.TERMINATE}
    assert sorted(harness.statuses(GROUP)) == ["web_0", "web_1"]
    harness.advance(299)
    assert harness.impacts() == []
    harness.advance(1)
    assert sorted(harness.impacted()) == ["web_0", "web_1"]


@pytest.mark.spec("T4")
@pytest.mark.parametrize("action", [Restart, Redeploy, Reimage, Stop, Deallocate, Start])
def test_nothing_else_is_announced_as_terminate(
    harness: FleetHarness, action: type[Operate]
) -> None:
    """Other operations have no Terminate event."""
    harness.make_scale_set(1)
    harness.do(OperateInstances(set="web", operation="op", action=action))
    types = {event.type for event in harness.events(GROUP)}
    own = {Restart: {EventType.REBOOT}, Redeploy: {EventType.REDEPLOY}}
    assert types == own.get(action, set())
    harness.advance(HOUR)
    assert harness.succeeded("op")
    assert "web_0" in harness.machines(GROUP)


@pytest.mark.spec("T4")
def test_spot_instances_get_no_terminate(harness: FleetHarness) -> None:
    """A Spot instance is deleted at once, and a Spot set with the profile is refused."""
    harness.make_scale_set(2, priority=Priority.SPOT)
    for refused in (
        CreateSet(set="no", capacity=1, priority=Priority.SPOT, terminate_seconds=300),
        UpdateSet(set="web", terminate_seconds=300),
    ):
        with pytest.raises(Conflict, match="Spot instances get no notice"):
            harness.do(refused)
    harness.delete_instances(0)
    assert harness.events(GROUP) == []
    assert harness.impacts() == [("web_0", ImpactKind.DELETE)]


@pytest.mark.spec("T4", "E2")
def test_a_cancelled_delete_keeps_the_instance(harness: FleetHarness) -> None:
    """An instance whose delete was cancelled stays, and can be deleted later."""
    harness.make_scale_set(1)
    harness.delete_instances(0, name="first")
    harness.cancel(GROUP, "web_0")
    harness.advance(HOUR)
    assert list(harness.machines(GROUP)) == instance_names("web", [0])
    harness.delete_instances(0, name="second")
    assert harness.statuses(GROUP) == {"web_0": SCHEDULED}
