"""Rolling upgrades of scale sets: rollouts that apply the model of a set (E7, T3)."""

import pytest

from fairwarning.core.commands import (
    AbortRollout,
    Deallocate,
    DeleteSet,
    OperateInstances,
    StartUpgrade,
    UpdateSet,
)
from fairwarning.core.model import EventType, ImpactKind, RolloutStatus
from tests.fixtures.fleet import FleetHarness

pytestmark = pytest.mark.spec("E7")

GROUP = "web/0"


def outdated(harness: FleetHarness) -> list[int]:
    """Return the ids of the instances that have an older model."""
    return [m.instance for m in harness.machines(GROUP).values() if m.size != "Standard_D2s_v5"]


def start(harness: FleetHarness, pause_seconds: int = 0) -> None:
    """Change the model of the set and upgrade its instances."""
    harness.do(UpdateSet(set="web", size="Standard_D2s_v5"))
    harness.do(StartUpgrade(set="web", rollout="up", pause_seconds=pause_seconds))


def test_each_step_applies_the_model() -> None:
    """The instances of an update domain have the new model when their step has ended."""
    with FleetHarness() as harness:
        harness.make_scale_set(10)
        start(harness)
        event = harness.only_event(GROUP)
        assert event.type is EventType.REBOOT
        assert set(event.resources) == {"web_0", "web_5"}
        assert outdated(harness) == list(range(10))
        harness.approve(GROUP, "web_0")
        harness.advance(60)
        assert outdated(harness) == [1, 2, 3, 4, 6, 7, 8, 9]
        harness.advance(5 * 1000)
        assert outdated(harness) == []
        rollout = harness.rollout("up")
        assert (rollout.status, rollout.done) == (RolloutStatus.DONE, 10)


def test_the_set_knows_its_latest_upgrade() -> None:
    """Also while another one is planned after it."""
    with FleetHarness() as harness:
        harness.make_scale_set(1)
        for name in ("first", "second"):
            harness.do(StartUpgrade(set="web", rollout=name, kind=ImpactKind.FREEZE))
            scale_set = harness.scale_set("web")
            assert scale_set is not None
            assert scale_set.rollout == name


def test_a_pause_between_steps() -> None:
    """The next update domain is announced after the pause."""
    with FleetHarness() as harness:
        harness.make_scale_set(2)
        start(harness, pause_seconds=3600)
        harness.approve(GROUP, "web_0")
        harness.advance(60)
        assert harness.events(GROUP) == []
        assert outdated(harness) == [1]
        harness.advance(3600)
        assert harness.only_event(GROUP).resources == ("web_1",)
        harness.advance(1000)
        assert harness.rollout("up").status is RolloutStatus.DONE


def test_a_pause_can_be_aborted() -> None:
    """An aborted upgrade ends at once, and the other instances keep their model."""
    with FleetHarness() as harness:
        harness.make_scale_set(2)
        start(harness, pause_seconds=3600)
        harness.approve(GROUP, "web_0")
        harness.advance(60)
        harness.do(AbortRollout(rollout="up"))
        assert harness.rollout("up").status is RolloutStatus.ABORTED
        harness.advance(7200)
        assert outdated(harness) == [1]


def test_a_canceled_step_applies_nothing() -> None:
    """Instances whose event was canceled keep their model."""
    with FleetHarness() as harness:
        harness.make_scale_set(2)
        start(harness)
        harness.do(AbortRollout(rollout="up"))
        harness.advance(1000)
        assert outdated(harness) == [0, 1]


def test_a_set_without_running_instances() -> None:
    """There is nothing to roll over: deallocated instances get the model at once."""
    with FleetHarness() as harness:
        harness.make_scale_set(1)
        harness.do(OperateInstances(set="web", action=Deallocate, operation="off"))
        harness.advance(120)
        start(harness)
        scale_set = harness.scale_set("web")
        assert scale_set is not None
        assert scale_set.rollout == ""
        assert outdated(harness) == []


def test_refused_upgrades() -> None:
    """Of a set that is being deleted, and under the name of another rollout."""
    with FleetHarness() as harness:
        harness.make_scale_set(2, terminate_seconds=300)
        harness.do(StartUpgrade(set="web", rollout="up"))
        assert harness.refusal(StartUpgrade(set="web", rollout="up")).code == "RolloutExists"
        harness.do(AbortRollout(rollout="up"))
        harness.do(DeleteSet(set="web", operation="end"))
        assert harness.refusal(StartUpgrade(set="web", rollout="two")).code == "SetDeleting"
