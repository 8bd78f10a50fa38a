"""The first poll enables the feature; a day without polls disables it (M14, M15, M11)."""

import asyncio
import json

import pytest

from fairwarning.core.commands import (
    Configure,
    CreateSet,
    Degrade,
    Delete,
    Evict,
    Fail,
    Maintain,
    Operate,
    OperateInstances,
    Redeploy,
    Restart,
)
from fairwarning.core.decision import FactType
from fairwarning.core.model import EventStatus, ImpactKind, Priority, Rules
from fairwarning.service.documents import PublishedScope
from tests.contract.units import DAY, HOUR, MINUTE
from tests.fixtures.fleet import NEWEST, NOON, FleetHarness
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until_async

EMPTY = {"DocumentIncarnation": 1, "Events": []}


@pytest.mark.spec("M14", "M11")
def test_the_first_poll_enables() -> None:
    """The first GET of any machine enables the scope; later ones change nothing."""
    with FleetHarness() as harness:
        harness.availability_set()
        assert not harness.scope("av").enabled
        assert harness.poll("av") == EMPTY
        assert harness.scope("av").enabled
        assert harness.poll("av") == EMPTY
        assert harness.facts(FactType.ENABLED) == [FactType.ENABLED]


@pytest.mark.spec("M14")
def test_one_scope_does_not_enable_another() -> None:
    """Each scope is enabled separately."""
    with FleetHarness() as harness:
        harness.make_enabled("a")
        harness.standalone("b")
        for scope in "ab":
            harness.operate(Restart, scope, scope, name=scope)
        assert harness.impacted() == ["b"]


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
    action: type[Operate], more: dict[str, object], kind: ImpactKind
) -> None:
    """In a disabled scope, operations run at once and create no event."""
    with FleetHarness() as harness:
        harness.standalone(priority=Priority.SPOT, terminate_seconds=300)
        harness.operate(action, "vm", "vm", **more)  # type: ignore[arg-type]
        assert harness.events("vm") == []
        assert harness.impacts() == [("vm", kind)]
        assert harness.impact_times() == {"vm": 0}
        harness.advance(HOUR)
        assert harness.succeeded("op")


@pytest.mark.spec("M15", "T4")
def test_a_disabled_set_deletes_at_once() -> None:
    """Only enabled scopes get terminate notice."""
    with FleetHarness() as harness:
        harness.do(CreateSet(set="web", capacity=2, terminate_seconds=900))
        harness.do(OperateInstances(set="web", operation="op", action=Delete, instances=(0,)))
        assert harness.impacts() == [("web_0", ImpactKind.DELETE)]


@pytest.mark.spec("M14")
def test_a_day_without_polls_disables() -> None:
    """24 hours without a GET disable the scope; a second earlier it is still enabled."""
    with FleetHarness() as harness:
        harness.make_enabled("vm")
        harness.advance(DAY - 1)
        assert harness.scope("vm").enabled
        harness.advance(1)
        assert not harness.scope("vm").enabled
        harness.operate(Restart, "vm", "vm")
        assert harness.impacted() == ["vm"]
        assert harness.facts(FactType.ENABLED, FactType.DISABLED) == [
            FactType.ENABLED,
            FactType.DISABLED,
        ]


@pytest.mark.spec("M14")
@pytest.mark.parametrize("every", [60, 4 * MINUTE, 7 * HOUR, DAY - 1])
def test_polls_keep_the_scope_enabled(every: int) -> None:
    """The day starts at the last GET, however often machines poll."""
    with FleetHarness() as harness:
        harness.make_enabled("vm")
        for _ in range(min(3 * DAY // every, 50)):
            harness.advance(every)
            assert harness.poll("vm") == EMPTY
        last = harness.clock.now()
        harness.advance(DAY - 1)
        assert harness.scope("vm").enabled
        harness.advance(1)
        assert not harness.scope("vm").enabled
        assert harness.clock.now() == last + DAY


@pytest.mark.spec("M14", "E9")
def test_the_last_poll_is_known_after_a_restart() -> None:
    """A clean stop stores the time of the last poll."""
    with FleetHarness() as harness:
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
def test_the_idle_limit_is_a_setting() -> None:
    """The idle limit is a setting of the scope and can be changed at any time."""
    with FleetHarness() as harness:
        harness.standalone(rules=Rules(idle_seconds=600))
        harness.poll("vm")
        harness.advance(599)
        harness.do(Configure(scope="vm", rules=Rules(idle_seconds=900)))
        harness.advance(300)
        assert harness.scope("vm").enabled
        harness.do(Configure(scope="vm", rules=Rules(idle_seconds=60)))
        harness.advance(0)
        assert not harness.scope("vm").enabled


@pytest.mark.spec("M11", "M14")
def test_incarnations_restart_after_the_scope_was_disabled() -> None:
    """The incarnation only grows while the scope is enabled, and restarts at 1 after that."""
    with FleetHarness() as harness:
        harness.make_enabled("vm")
        seen = []
        for name in ("first", "second"):
            harness.operate(Restart, "vm", "vm", name=name)
            seen.append(harness.poll("vm")["DocumentIncarnation"])
            harness.approve("vm")
            seen.append(harness.poll("vm")["DocumentIncarnation"])
            harness.advance(60)
            seen.append(harness.poll("vm")["DocumentIncarnation"])
        assert seen == [2, 3, 4, 5, 6, 7]
        harness.advance(DAY)
        assert harness.poll("vm") == EMPTY


@pytest.mark.spec("M15", "M14", "M11")
def test_an_event_outlives_the_feature() -> None:
    """Events of a scope that becomes disabled continue, and the next poll shows them."""
    with FleetHarness() as harness:
        harness.make_enabled("vm")
        harness.operate(Degrade, "vm", "vm", not_before=int(NOON) + 3 * DAY)
        event = harness.only_event("vm")
        harness.advance(2 * DAY)
        assert not harness.scope("vm").enabled
        assert harness.only_event("vm") == event
        document = harness.poll("vm")
        assert document["DocumentIncarnation"] == 1
        assert [shown["EventId"] for shown in document["Events"]] == [event.id]
        harness.advance(DAY - 1)
        assert harness.poll("vm") == document
        harness.advance(1)
        assert harness.impacts() == [("vm", ImpactKind.REDEPLOY)]
        assert harness.poll("vm")["DocumentIncarnation"] == 2


@pytest.mark.spec("M15")
def test_an_event_continues_without_polls() -> None:
    """An announced event starts at NotBefore and ends even if the scope is disabled."""
    with FleetHarness() as harness:
        harness.make_enabled("vm")
        harness.operate(Degrade, "vm", "vm", not_before=int(NOON) + 2 * DAY)
        harness.advance(2 * DAY - 1)
        assert harness.impacts() == []
        harness.advance(1)
        assert harness.statuses("vm") == {"vm": EventStatus.STARTED}
        harness.advance(240)
        assert harness.events("vm") == []
        assert not harness.scope("vm").enabled
        assert harness.succeeded("op")
        assert harness.poll("vm") == EMPTY


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
@pytest.mark.parametrize("delay", [1, 120])
def test_the_first_poll_is_held(delay: int) -> None:
    """The first GET is held for `enable_delay`; later ones are answered at once."""

    async def first_poll(harness: FleetHarness) -> None:
        poll = await _held(harness)
        await harness.fleet.advance(delay - 0.5)
        assert await _not_yet(poll)
        await harness.fleet.advance(0.5)
        assert json.loads((await asyncio.wait_for(poll, LIMIT_SECONDS)).body(NEWEST)) == EMPTY

    with FleetHarness() as harness:
        harness.standalone(rules=Rules(enable_delay_seconds=delay))
        harness.run(first_poll(harness))
        assert harness.poll("vm") == EMPTY


@pytest.mark.spec("M14")
def test_later_polls_are_held_with_the_first() -> None:
    """Further GETs during `enable_delay` are held as well."""

    async def two_polls(harness: FleetHarness) -> None:
        first = await _held(harness)
        await harness.fleet.advance(30)
        second = asyncio.create_task(harness.fleet.poll("vm"))
        assert await _not_yet(second)
        await harness.fleet.advance(30)
        await asyncio.wait_for(asyncio.gather(first, second), LIMIT_SECONDS)

    with FleetHarness() as harness:
        harness.standalone(rules=Rules(enable_delay_seconds=60))
        harness.run(two_polls(harness))


@pytest.mark.spec("M14")
def test_a_cancelled_held_poll_still_enables() -> None:
    """A client that closes a held request has still enabled the scope."""

    async def cancelled_poll(harness: FleetHarness) -> None:
        poll = await _held(harness)
        await harness.fleet.advance(1)
        held = sum(alarm.callback is not None for *_, alarm in harness.clock._alarms)
        poll.cancel()
        await asyncio.wait([poll])
        assert poll.cancelled()
        assert sum(alarm.callback is not None for *_, alarm in harness.clock._alarms) == held - 1

    with FleetHarness() as harness:
        harness.standalone(rules=Rules(enable_delay_seconds=60))
        harness.run(cancelled_poll(harness))
        assert harness.scope("vm").enabled
        harness.advance(60)
        assert harness.poll("vm") == EMPTY
