"""The first poll enables the feature; a day without polls disables it (M14, M15, M11)."""

import asyncio

import pytest

from fairwarning.core.commands import (
    Configure,
    Degrade,
    Delete,
    Evict,
    Fail,
    Maintain,
    Operate,
    Redeploy,
    Restart,
)
from fairwarning.core.model import EventType, ImpactKind, Priority, Rules
from fairwarning.service.documents import PublishedScope
from tests.contract.units import DAY, HOUR
from tests.fixtures.fleet import NOON, FleetHarness
from tests.fixtures.waiting import wait_until_async

EMPTY = {"DocumentIncarnation": 1, "Events": []}


AT_ONCE = [
    (Restart, {}, ImpactKind.REBOOT),
    (Redeploy, {}, ImpactKind.REDEPLOY),
    (Maintain, {}, ImpactKind.FREEZE),
    (Degrade, {"not_before": int(NOON) + DAY}, ImpactKind.REDEPLOY),
    (Fail, {}, ImpactKind.REDEPLOY),
    (Evict, {}, ImpactKind.EVICT),
    (Delete, {}, ImpactKind.DELETE),
]


@pytest.mark.spec("M15")
@pytest.mark.parametrize(("action", "more", "kind"), AT_ONCE)
def test_a_scope_that_is_off_is_not_waited_for(
    harness: FleetHarness, action: type[Operate], more: dict[str, object], kind: ImpactKind
) -> None:
    """In a disabled scope, operations run at once and create no event."""
    harness.standalone(priority=Priority.SPOT, terminate_seconds=300)
    harness.operate(action, "vm", "vm", **more)  # type: ignore[arg-type]
    assert harness.events("vm") == []
    assert harness.impacts() == [("vm", kind)]
    assert harness.impact_times() == {"vm": 0}
    harness.advance(HOUR)
    assert harness.succeeded("op")


@pytest.mark.spec("M14", "E9")
def test_the_last_poll_is_known_after_a_restart(harness: FleetHarness) -> None:
    """A clean stop stores the time of the last poll."""
    harness.make_enabled("vm")
    for _ in range(2):
        harness.advance(100)
        harness.poll("vm")
    harness.restart()
    harness.advance(DAY - 1)
    assert harness.scope("vm").enabled
    harness.advance(1)
    assert not harness.scope("vm").enabled


@pytest.mark.spec("M14")
def test_the_idle_limit_is_a_setting(harness: FleetHarness) -> None:
    """The idle limit is a setting of the scope and can be changed at any time."""
    harness.standalone(rules=Rules(idle_seconds=600))
    harness.poll("vm")
    harness.advance(599)
    harness.do(Configure(scope="vm", rules=Rules(idle_seconds=900)))
    harness.advance(300)
    assert harness.scope("vm").enabled
    harness.do(Configure(scope="vm", rules=Rules(idle_seconds=60)))
    harness.advance(0)
    assert not harness.scope("vm").enabled


async def _held(harness: FleetHarness) -> "asyncio.Task[PublishedScope]":
    """Start a first GET that is held."""
    poll = asyncio.create_task(harness.fleet.poll("vm"))
    await wait_until_async(
        lambda: bool((ready := harness.fleet.documents.get("vm")) and ready.incarnation)
    )
    assert await _not_yet(poll)
    return poll


async def _not_yet(poll: "asyncio.Task[PublishedScope]") -> bool:
    done, _ = await asyncio.wait([poll], timeout=0.02)
    return not done


@pytest.mark.spec("M14")
def test_a_cancelled_held_poll_still_enables(harness: FleetHarness) -> None:
    """A client that closes a held request has still enabled the scope."""

    async def cancelled_poll(harness: FleetHarness) -> None:
        poll = await _held(harness)
        await harness.fleet.advance(1)
        held = sum(alarm.callback is not None for *_, alarm in harness.clock._alarms)
        poll.cancel()
        await asyncio.wait([poll])
        assert poll.cancelled()
        assert sum(alarm.callback is not None for *_, alarm in harness.clock._alarms) == held - 1

    harness.standalone(rules=Rules(enable_delay_seconds=60))
    harness.run(cancelled_poll(harness))
    assert harness.scope("vm").enabled
    harness.advance(60)
    assert harness.poll("vm") == EMPTY


@pytest.mark.spec("M14", "T4")
def test_a_poll_of_one_placement_group_counts_for_the_whole_set(harness: FleetHarness) -> None:
    """The first enables all groups, also those that come later; a delete then has its notice."""
    harness.make_scale_set(150, terminate_seconds=300)
    harness.poll("web/0")
    assert harness.scope("web/1").enabled
    harness.delete_instances(149)
    assert harness.only_event("web/1").type is EventType.TERMINATE
    harness.scale(250)
    assert harness.scope("web/2").enabled


@pytest.mark.spec("M14")
@pytest.mark.parametrize("polled_at", [HOUR, 10 * HOUR, 20 * HOUR])
def test_a_day_without_a_poll_of_any_group_disables_the_whole_set(
    harness: FleetHarness, polled_at: int
) -> None:
    """A group that nobody polls stays enabled for as long as another one is polled."""
    harness.make_scale_set(150)
    harness.poll("web/0")
    harness.advance(polled_at)
    harness.poll("web/0")
    harness.advance(DAY - 1)
    assert harness.scope("web/0").enabled
    assert harness.scope("web/1").enabled
    harness.advance(1)
    assert not harness.scope("web/0").enabled
    assert not harness.scope("web/1").enabled
