"""An approved delete waits for earlier ones of its set that are not (T6)."""

import pytest

from fairwarning.core.commands import Delete, OperateInstances, UpdateSet, UpgradeInstances
from fairwarning.core.model import EventStatus
from tests.contract.shortcuts import approve, begun, cancel, hit, of, set_of, shown, succeeded
from tests.fixtures.fleet import NOON, FleetHarness

GROUP = "web/0"
SCHEDULED, STARTED = EventStatus.SCHEDULED, EventStatus.STARTED

pytestmark = pytest.mark.spec("T6")


def _delete(harness: FleetHarness, *instances: int) -> None:
    name = "-".join(map(str, instances))
    harness.do(OperateInstances(set="web", operation=name, action=Delete, instances=instances))


def _one_after_another(harness: FleetHarness, count: int = 2) -> None:
    """A set whose first instances were deleted one by one, ten seconds apart."""
    set_of(harness, 4)
    for n in range(count):
        _delete(harness, n)
        harness.advance(10)


def test_an_earlier_pending_delete_holds_a_later_approved_one() -> None:
    """The later one stays Scheduled, approved or not, while the earlier one is neither."""
    with FleetHarness() as harness:
        _one_after_another(harness)
        approve(harness, GROUP, "web_1")
        harness.advance(60)
        assert shown(harness, GROUP) == {"web_0": SCHEDULED, "web_1": SCHEDULED}
        assert hit(harness) == []


def test_approving_the_earlier_one_releases_both() -> None:
    """Both go at the moment the earlier one is approved."""
    with FleetHarness() as harness:
        _one_after_another(harness)
        approve(harness, GROUP, "web_1")
        approve(harness, GROUP, "web_0")
        assert begun(harness) == {"web_0": 20, "web_1": 20}
        harness.advance(30)
        assert succeeded(harness, "0", "1")


def test_the_earlier_one_does_not_wait_for_the_later() -> None:
    """Only what came before is waited for."""
    with FleetHarness() as harness:
        _one_after_another(harness)
        approve(harness, GROUP, "web_0")
        assert hit(harness) == ["web_0"]
        assert shown(harness, GROUP)["web_1"] is SCHEDULED
        approve(harness, GROUP, "web_1")
        assert hit(harness) == ["web_0", "web_1"]


def test_a_time_out_releases_those_behind_it() -> None:
    """At the earlier one's NotBefore both start: it by time, the other as approved."""
    with FleetHarness() as harness:
        _one_after_another(harness)
        approve(harness, GROUP, "web_1")
        harness.advance(279)
        assert hit(harness) == []
        harness.advance(1)
        assert begun(harness) == {"web_0": 300, "web_1": 300}


def test_without_approval_each_goes_at_its_own_time() -> None:
    """Nobody answers: each instance is deleted at its NotBefore."""
    with FleetHarness() as harness:
        _one_after_another(harness, count=3)
        harness.advance(600)
        assert begun(harness) == {"web_0": 300, "web_1": 310, "web_2": 320}


def test_a_queue_of_three() -> None:
    """Each waits for all before it; one approval may release a whole row."""
    with FleetHarness() as harness:
        _one_after_another(harness, count=3)
        approve(harness, GROUP, "web_2")
        approve(harness, GROUP, "web_0")
        assert hit(harness) == ["web_0"]
        approve(harness, GROUP, "web_1")
        assert hit(harness) == ["web_0", "web_1", "web_2"]


def test_cancelling_the_earlier_one_releases_those_behind_it() -> None:
    """What will not happen is not waited for."""
    with FleetHarness() as harness:
        _one_after_another(harness)
        approve(harness, GROUP, "web_1")
        cancel(harness, GROUP, "web_0")
        assert hit(harness) == ["web_1"]


def test_deletes_of_one_time_all_need_approval() -> None:
    """With the same NotBefore none starts before all are approved."""
    with FleetHarness() as harness:
        set_of(harness, 4)
        _delete(harness, 0, 1, 2)
        for n in (2, 0):
            approve(harness, GROUP, f"web_{n}")
            harness.advance(5)
            assert hit(harness) == []
        approve(harness, GROUP, "web_1")
        assert begun(harness) == {"web_0": 10, "web_1": 10, "web_2": 10}


@pytest.mark.parametrize("approved", [(), (0,), (1, 2)])
def test_deletes_of_one_time_wait_for_the_timeout_otherwise(approved: tuple[int, ...]) -> None:
    """If one of them is not approved, all go at NotBefore."""
    with FleetHarness() as harness:
        set_of(harness, 4)
        _delete(harness, 0, 1, 2)
        for n in approved:
            approve(harness, GROUP, f"web_{n}")
        harness.advance(299)
        assert hit(harness) == []
        harness.advance(1)
        assert begun(harness) == dict.fromkeys(("web_0", "web_1", "web_2"), 300)


def test_deletes_within_one_second_share_a_not_before() -> None:
    """What counts is the NotBefore that was published: two deletes of one second need both."""
    with FleetHarness(start=NOON + 0.1) as harness:
        set_of(harness, 2)
        _delete(harness, 0)
        harness.advance(0.5)
        _delete(harness, 1)
        assert of(harness, GROUP, "web_0").not_before == of(harness, GROUP, "web_1").not_before
        approve(harness, GROUP, "web_0")
        assert hit(harness) == []
        approve(harness, GROUP, "web_1")
        assert hit(harness) == ["web_0", "web_1"]


def test_the_queue_is_the_sets_not_the_groups() -> None:
    """An earlier delete in one placement group holds an approved one in another."""
    with FleetHarness() as harness:
        set_of(harness, 150)
        _delete(harness, 7)
        harness.advance(10)
        _delete(harness, 120)
        approve(harness, "web/1", "web_120")
        assert shown(harness, "web/1") == {"web_120": SCHEDULED}
        assert hit(harness) == []
        approve(harness, "web/0", "web_7")
        assert hit(harness) == ["web_7", "web_120"]
        assert shown(harness, "web/1") == {"web_120": STARTED}


def test_a_time_out_in_one_group_releases_another() -> None:
    """The same across groups when nobody approves the earlier one."""
    with FleetHarness() as harness:
        set_of(harness, 150)
        _delete(harness, 120)
        harness.advance(10)
        _delete(harness, 7)
        approve(harness, "web/0", "web_7")
        harness.advance(290)
        assert begun(harness) == {"web_120": 300, "web_7": 300}


def test_deletes_of_one_time_in_two_groups() -> None:
    """One operation over two groups: all of its instances need approval."""
    with FleetHarness() as harness:
        set_of(harness, 150)
        _delete(harness, 7, 120)
        approve(harness, "web/0")
        assert hit(harness) == []
        approve(harness, "web/1")
        assert sorted(hit(harness)) == ["web_120", "web_7"]


def test_different_notice_after_a_change_of_the_model() -> None:
    """A later delete with shorter notice waits for an earlier one, but not past its NotBefore."""
    with FleetHarness() as harness:
        set_of(harness, 2, terminate_seconds=900)
        harness.do(UpdateSet(set="web", terminate_seconds=300))
        harness.do(UpgradeInstances(set="web", instances=(1,)))
        _delete(harness, 0)
        harness.advance(10)
        _delete(harness, 1)
        approve(harness, GROUP, "web_1")
        assert hit(harness) == []
        harness.advance(300)
        assert begun(harness) == {"web_1": 310}
        assert shown(harness, GROUP)["web_0"] is SCHEDULED
        harness.advance(590)
        assert begun(harness)["web_0"] == 900


def test_longer_notice_later_is_released_by_the_shorter_one_before_it() -> None:
    """A later delete with longer notice that was approved goes when the earlier one times out."""
    with FleetHarness() as harness:
        set_of(harness, 2)
        harness.do(UpdateSet(set="web", terminate_seconds=900))
        harness.do(UpgradeInstances(set="web", instances=(1,)))
        _delete(harness, 0)
        harness.advance(10)
        _delete(harness, 1)
        approve(harness, GROUP, "web_1")
        harness.advance(290)
        assert begun(harness) == {"web_0": 300, "web_1": 300}


def test_sets_do_not_wait_for_each_other() -> None:
    """Each set has a queue of its own."""
    with FleetHarness() as harness:
        set_of(harness, 1)
        set_of(harness, 1, name="db")
        _delete(harness, 0)
        harness.do(OperateInstances(set="db", operation="db", action=Delete))
        approve(harness, "db/0")
        assert hit(harness) == ["db_0"]


def test_the_queue_survives_a_restart() -> None:
    """What was approved and waits is still approved, and still waits, after a restart."""
    with FleetHarness() as harness:
        _one_after_another(harness)
        approve(harness, GROUP, "web_1")
        harness.restart()
        assert hit(harness) == []
        approve(harness, GROUP, "web_0")
        assert hit(harness) == ["web_0", "web_1"]
