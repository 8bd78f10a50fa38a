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


def test_approving_the_earlier_one_releases_both(harness: FleetHarness) -> None:
    """Both deletes start when the earlier one is approved."""
    _one_after_another(harness)
    harness.approve(GROUP, "web_1")
    harness.approve(GROUP, "web_0")
    assert harness.impact_times() == {"web_0": 20, "web_1": 20}
    harness.advance(30)
    assert harness.succeeded("0", "1")


def test_a_time_out_releases_those_behind_it(harness: FleetHarness) -> None:
    """At NotBefore of the earlier delete, it starts and so does the approved later one."""
    _one_after_another(harness)
    harness.approve(GROUP, "web_1")
    harness.advance(279)
    assert harness.impacted() == []
    harness.advance(1)
    assert harness.impact_times() == {"web_0": 300, "web_1": 300}


def test_without_approval_each_delete_starts_at_its_not_before(harness: FleetHarness) -> None:
    """Without approvals, each instance is deleted at its NotBefore."""
    _one_after_another(harness, count=3)
    harness.advance(600)
    assert harness.impact_times() == {"web_0": 300, "web_1": 310, "web_2": 320}


def test_a_queue_of_three(harness: FleetHarness) -> None:
    """Each delete waits for all earlier ones; one approval may release several."""
    _one_after_another(harness, count=3)
    harness.approve(GROUP, "web_2")
    harness.approve(GROUP, "web_0")
    assert harness.impacted() == ["web_0"]
    harness.approve(GROUP, "web_1")
    assert harness.impacted() == ["web_0", "web_1", "web_2"]


def test_cancelling_the_earlier_one_releases_those_behind_it(harness: FleetHarness) -> None:
    """A cancelled delete no longer blocks later ones."""
    _one_after_another(harness)
    harness.approve(GROUP, "web_1")
    harness.cancel(GROUP, "web_0")
    assert harness.impacted() == ["web_1"]


@pytest.mark.parametrize("approved", [(), (0,), (1, 2)])
def test_deletes_with_one_not_before_otherwise_wait_for_it(
    harness: FleetHarness, approved: tuple[int, ...]
) -> None:
    """If one of them is not approved, all start at NotBefore."""
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


def test_the_queue_spans_the_groups_of_a_set(harness: FleetHarness) -> None:
    """An earlier delete in one placement group blocks an approved one in another."""
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


def test_a_start_in_one_group_releases_another(harness: FleetHarness) -> None:
    """The start of an earlier delete at NotBefore releases an approved one in another group."""
    harness.make_scale_set(150)
    harness.delete_instances(120)
    harness.advance(10)
    harness.delete_instances(7)
    harness.approve("web/0", "web_7")
    harness.advance(290)
    assert harness.impact_times() == {"web_120": 300, "web_7": 300}


def test_deletes_with_one_not_before_in_two_groups(harness: FleetHarness) -> None:
    """For one operation over two groups, all instances need approval."""
    harness.make_scale_set(150)
    harness.delete_instances(7, 120)
    harness.approve("web/0")
    assert harness.impacted() == []
    harness.approve("web/1")
    assert sorted(harness.impacted()) == ["web_120", "web_7"]


def test_different_notice_after_a_change_of_the_model(harness: FleetHarness) -> None:
    """A later delete with shorter notice waits for an earlier one, but not past its NotBefore."""
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


def test_longer_notice_later_is_released_by_the_shorter_one_before_it(
    harness: FleetHarness,
) -> None:
    """An approved later delete with longer notice starts at NotBefore of the earlier one."""
    harness.make_scale_set(2)
    harness.do(UpdateSet(set="web", terminate_seconds=900))
    harness.do(UpgradeInstances(set="web", instances=(1,)))
    harness.delete_instances(0)
    harness.advance(10)
    harness.delete_instances(1)
    harness.approve(GROUP, "web_1")
    harness.advance(290)
    assert harness.impact_times() == {"web_0": 300, "web_1": 300}


def test_sets_do_not_wait_for_each_other(harness: FleetHarness) -> None:
    """Each set has its own queue."""
    harness.make_scale_set(1)
    harness.make_scale_set(1, name="db")
    harness.delete_instances(0)
    harness.do(OperateInstances(set="db", operation="db", action=Delete))
    harness.approve("db/0")
    assert harness.impacted() == ["db_0"]


def test_the_queue_survives_a_restart(harness: FleetHarness) -> None:
    """An approved delete that waits is still approved and waits after a restart."""
    _one_after_another(harness)
    harness.approve(GROUP, "web_1")
    harness.restart()
    assert harness.impacted() == []
    harness.approve(GROUP, "web_0")
    assert harness.impacted() == ["web_0", "web_1"]
