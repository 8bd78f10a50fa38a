"""Terminate notification: which deletes get notice, and how much (T1, T3 to T6)."""

import pytest

from fairwarning.core.commands import (
    CreateSet,
    Delete,
    OperateInstances,
    UpdateSet,
    UpgradeInstances,
)
from fairwarning.core.errors import Conflict
from fairwarning.core.model import EventStatus, ImpactKind, Priority, UpgradeMode
from fairwarning.core.record import changed
from tests.fixtures.fleet import NOON, FleetHarness

GROUP = "web/0"
SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED


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


CASES = {
    "a time-out releases those behind it": (
        "delete 0, wait 10, delete 1, wait 10, approve 1",
        {0: 300, 1: 300},
    ),
    "without approval each delete starts at its NotBefore": (
        "delete 0, wait 10, delete 1, wait 10, delete 2",
        {0: 300, 1: 310, 2: 320},
    ),
    "each waits for all earlier ones, and one approval may release several": (
        "delete 0, wait 1, delete 1, wait 1, delete 2, approve 2, approve 0, wait 5, approve 1",
        {0: 2, 1: 7, 2: 7},
    ),
    "cancelling the earlier one releases those behind it": (
        "delete 0, wait 10, delete 1, wait 10, approve 1, wait 5, cancel 0",
        {1: 25},
    ),
    "deletes with one NotBefore, of which one is approved, wait for it": (
        "delete 0 1 2, approve 0",
        {0: 300, 1: 300, 2: 300},
    ),
    "deletes with one NotBefore, of which one is not approved, wait for it": (
        "delete 0 1 2, approve 1, approve 2",
        {0: 300, 1: 300, 2: 300},
    ),
    "the queue spans the placement groups of a set": (
        "delete 7, wait 10, delete 120, approve 120, wait 5, approve 7",
        {7: 15, 120: 15},
    ),
    "a start in one group releases another": (
        "delete 120, wait 10, delete 7, approve 7",
        {120: 300, 7: 300},
    ),
    "deletes with one NotBefore in two groups need all approvals": (
        "delete 7 120, approve 7, wait 5, approve 120",
        {7: 5, 120: 5},
    ),
    "shorter notice later does not wait past its own NotBefore": (
        "notice 900, notice 300 1, delete 0, wait 10, delete 1, approve 1",
        {1: 310, 0: 900},
    ),
    "longer notice later is released by the shorter one before it": (
        "notice 300, notice 900 1, delete 0, wait 10, delete 1, approve 1",
        {0: 300, 1: 300},
    ),
    "the queue survives a restart": (
        "delete 0, wait 10, delete 1, wait 10, approve 1, restart, wait 5, approve 0",
        {0: 25, 1: 25},
    ),
}
"""What happens to instances of a set, and when each of them is deleted, in seconds."""


def _take(harness: FleetHarness, verb: str, number: int, *others: int) -> None:
    scope, machine = f"web/{number // 100}", f"web_{number}"
    if verb == "delete":
        harness.delete_instances(number, *others)
    elif verb == "approve":
        harness.approve(scope, machine)
    elif verb == "cancel":
        harness.cancel(scope, machine)
    elif verb == "wait":
        harness.advance(number)
    else:  # notice in seconds, of all instances or of these
        harness.do(UpdateSet(set="web", terminate_seconds=number))
        harness.do(UpgradeInstances(set="web", instances=others or None))


@pytest.mark.spec("T6")
@pytest.mark.parametrize("case", CASES)
def test_when_instances_are_deleted(harness: FleetHarness, case: str) -> None:
    """At the approval of the last one that waits, else at NotBefore of an earlier one."""
    steps, times = CASES[case]
    harness.make_scale_set(150)
    for step in steps.split(", "):
        verb, *numbers = step.split()
        if verb == "restart":
            harness.restart()
        else:
            _take(harness, verb, *map(int, numbers))
    harness.advance(1000)
    assert harness.impact_times() == {f"web_{number}": time for number, time in times.items()}


@pytest.mark.spec("T6")
def test_deletes_within_one_second_share_a_not_before() -> None:
    """The published NotBefore counts: two deletes within one second need both approvals."""
    with FleetHarness(start=NOON + 0.1) as harness:
        harness.make_scale_set(2)
        harness.delete_instances(0)
        harness.advance(0.5)
        harness.delete_instances(1)
        first, second = harness.events(GROUP)
        assert first.not_before == second.not_before
        harness.approve(GROUP, "web_0")
        assert harness.impacted() == []
        harness.approve(GROUP, "web_1")
        assert harness.impacted() == ["web_0", "web_1"]


@pytest.mark.spec("T6")
def test_sets_do_not_wait_for_each_other(harness: FleetHarness) -> None:
    """Each set has its own queue."""
    harness.make_scale_set(1)
    harness.make_scale_set(1, name="db")
    harness.delete_instances(0)
    harness.do(OperateInstances(set="db", operation="db", action=Delete))
    harness.approve("db/0")
    assert harness.impacted() == ["db_0"]
