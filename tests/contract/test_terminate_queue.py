"""An approved delete waits for earlier unapproved deletes of its set (T6)."""

import pytest

from fairwarning.core.commands import Delete, OperateInstances, UpdateSet, UpgradeInstances
from fairwarning.core.model import EventStatus
from tests.fixtures.fleet import NOON, FleetHarness

GROUP = "web/0"
SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED

pytestmark = pytest.mark.spec("T6")


def _one_after_another(harness: FleetHarness, count: int = 2) -> None:
    """Create a set and delete its first instances one by one, ten seconds apart."""
    harness.make_scale_set(4)
    for n in range(count):
        harness.delete_instances(n)
        harness.advance(10)


def test_an_earlier_pending_delete_holds_a_later_approved_one() -> None:
    """An approved delete stays Scheduled while an earlier one is not approved."""
    with FleetHarness() as harness:
        _one_after_another(harness)
        harness.approve(GROUP, "web_1")
        harness.advance(60)
        assert harness.statuses(GROUP) == {"web_0": SCHEDULED, "web_1": SCHEDULED}
        assert harness.impacted() == []


def test_approving_the_earlier_one_releases_both() -> None:
    """Both deletes start when the earlier one is approved."""
    with FleetHarness() as harness:
        _one_after_another(harness)
        harness.approve(GROUP, "web_1")
        harness.approve(GROUP, "web_0")
        assert harness.impact_times() == {"web_0": 20, "web_1": 20}
        harness.advance(30)
        assert harness.succeeded("0", "1")


def test_the_earlier_one_does_not_wait_for_the_later() -> None:
    """A delete waits only for earlier deletes."""
    with FleetHarness() as harness:
        _one_after_another(harness)
        harness.approve(GROUP, "web_0")
        assert harness.impacted() == ["web_0"]
        assert harness.statuses(GROUP)["web_1"] is SCHEDULED
        harness.approve(GROUP, "web_1")
        assert harness.impacted() == ["web_0", "web_1"]


def test_a_time_out_releases_those_behind_it() -> None:
    """At NotBefore of the earlier delete, it starts and so does the approved later one."""
    with FleetHarness() as harness:
        _one_after_another(harness)
        harness.approve(GROUP, "web_1")
        harness.advance(279)
        assert harness.impacted() == []
        harness.advance(1)
        assert harness.impact_times() == {"web_0": 300, "web_1": 300}


def test_without_approval_each_delete_starts_at_its_not_before() -> None:
    """Without approvals, each instance is deleted at its NotBefore."""
    with FleetHarness() as harness:
        _one_after_another(harness, count=3)
        harness.advance(600)
        assert harness.impact_times() == {"web_0": 300, "web_1": 310, "web_2": 320}


def test_a_queue_of_three() -> None:
    """Each delete waits for all earlier ones; one approval may release several."""
    with FleetHarness() as harness:
        _one_after_another(harness, count=3)
        harness.approve(GROUP, "web_2")
        harness.approve(GROUP, "web_0")
        assert harness.impacted() == ["web_0"]
        harness.approve(GROUP, "web_1")
        assert harness.impacted() == ["web_0", "web_1", "web_2"]


def test_cancelling_the_earlier_one_releases_those_behind_it() -> None:
    """A cancelled delete no longer blocks later ones."""
    with FleetHarness() as harness:
        _one_after_another(harness)
        harness.approve(GROUP, "web_1")
        harness.cancel(GROUP, "web_0")
        assert harness.impacted() == ["web_1"]


def test_deletes_with_one_not_before_all_need_approval() -> None:
    """Deletes with the same NotBefore start when all of them are approved."""
    with FleetHarness() as harness:
        harness.make_scale_set(4)
        harness.delete_instances(0, 1, 2)
        for n in (2, 0):
            harness.approve(GROUP, f"web_{n}")
            harness.advance(5)
            assert harness.impacted() == []
        harness.approve(GROUP, "web_1")
        assert harness.impact_times() == {"web_0": 10, "web_1": 10, "web_2": 10}


@pytest.mark.parametrize("approved", [(), (0,), (1, 2)])
def test_deletes_with_one_not_before_otherwise_wait_for_it(approved: tuple[int, ...]) -> None:
    """If one of them is not approved, all start at NotBefore."""
    with FleetHarness() as harness:
        harness.make_scale_set(4)
        harness.delete_instances(0, 1, 2)
        for n in approved:
            harness.approve(GROUP, f"web_{n}")
        harness.advance(299)
        assert harness.impacted() == []
        harness.advance(1)
        assert harness.impact_times() == dict.fromkeys(("web_0", "web_1", "web_2"), 300)


def test_deletes_within_one_second_share_a_not_before() -> None:
    """The published NotBefore counts: two deletes within one second need both approvals."""
    with FleetHarness(start=NOON + 0.1) as harness:
        harness.make_scale_set(2)
        harness.delete_instances(0)
        harness.advance(0.5)
        harness.delete_instances(1)
        assert (
            harness.event_of(GROUP, "web_0").not_before
            == harness.event_of(GROUP, "web_1").not_before
        )
        harness.approve(GROUP, "web_0")
        assert harness.impacted() == []
        harness.approve(GROUP, "web_1")
        assert harness.impacted() == ["web_0", "web_1"]


def test_the_queue_spans_the_groups_of_a_set() -> None:
    """An earlier delete in one placement group blocks an approved one in another."""
    with FleetHarness() as harness:
        harness.make_scale_set(150)
        harness.delete_instances(7)
        harness.advance(10)
        harness.delete_instances(120)
        harness.approve("web/1", "web_120")
        assert harness.statuses("web/1") == {"web_120": SCHEDULED}
        assert harness.impacted() == []
        harness.approve("web/0", "web_7")
        assert harness.impacted() == ["web_7", "web_120"]
        assert harness.statuses("web/1") == {"web_120": STARTED}


def test_a_start_in_one_group_releases_another() -> None:
    """The start of an earlier delete at NotBefore releases an approved one in another group."""
    with FleetHarness() as harness:
        harness.make_scale_set(150)
        harness.delete_instances(120)
        harness.advance(10)
        harness.delete_instances(7)
        harness.approve("web/0", "web_7")
        harness.advance(290)
        assert harness.impact_times() == {"web_120": 300, "web_7": 300}


def test_deletes_with_one_not_before_in_two_groups() -> None:
    """For one operation over two groups, all instances need approval."""
    with FleetHarness() as harness:
        harness.make_scale_set(150)
        harness.delete_instances(7, 120)
        harness.approve("web/0")
        assert harness.impacted() == []
        harness.approve("web/1")
        assert sorted(harness.impacted()) == ["web_120", "web_7"]


def test_different_notice_after_a_change_of_the_model() -> None:
    """A later delete with shorter notice waits for an earlier one, but not past its NotBefore."""
    with FleetHarness() as harness:
        harness.make_scale_set(2, terminate_seconds=900)
        harness.do(UpdateSet(set="web", terminate_seconds=300))
        harness.do(UpgradeInstances(set="web", instances=(1,)))
        harness.delete_instances(0)
        harness.advance(10)
        harness.delete_instances(1)
        harness.approve(GROUP, "web_1")
        assert harness.impacted() == []
        harness.advance(300)
        assert harness.impact_times() == {"web_1": 310}
        assert harness.statuses(GROUP)["web_0"] is SCHEDULED
        harness.advance(590)
        assert harness.impact_times()["web_0"] == 900


def test_longer_notice_later_is_released_by_the_shorter_one_before_it() -> None:
    """An approved later delete with longer notice starts at NotBefore of the earlier one."""
    with FleetHarness() as harness:
        harness.make_scale_set(2)
        harness.do(UpdateSet(set="web", terminate_seconds=900))
        harness.do(UpgradeInstances(set="web", instances=(1,)))
        harness.delete_instances(0)
        harness.advance(10)
        harness.delete_instances(1)
        harness.approve(GROUP, "web_1")
        harness.advance(290)
        assert harness.impact_times() == {"web_0": 300, "web_1": 300}


def test_sets_do_not_wait_for_each_other() -> None:
    """Each set has its own queue."""
    with FleetHarness() as harness:
        harness.make_scale_set(1)
        harness.make_scale_set(1, name="db")
        harness.delete_instances(0)
        harness.do(OperateInstances(set="db", operation="db", action=Delete))
        harness.approve("db/0")
        assert harness.impacted() == ["db_0"]


def test_the_queue_survives_a_restart() -> None:
    """An approved delete that waits is still approved and waits after a restart."""
    with FleetHarness() as harness:
        _one_after_another(harness)
        harness.approve(GROUP, "web_1")
        harness.restart()
        assert harness.impacted() == []
        harness.approve(GROUP, "web_0")
        assert harness.impacted() == ["web_0", "web_1"]
