"""Many submitters, one writer: grouping, isolation, order, stopping."""

import asyncio
from typing import Any

import pytest

from fairwarning.core import cascade
from fairwarning.core.commands import Command, Configure, CreateScope, CreateSet
from fairwarning.core.errors import Conflict, Unavailable
from fairwarning.core.model import Machine, Rules, Scope, ScopeKind
from tests.fixtures.controlled_fleet import (
    ControlledFleet,
    controlled_fleet,
    on_a_controlled_fleet,
)
from tests.fixtures.fleet import restart, standalone
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until_async


@on_a_controlled_fleet
async def test_submitters_share_commits(harness: ControlledFleet) -> None:
    """Commands that arrive during a commit are committed together, and each gets its answer."""
    harness.store.hold()
    tasks = [asyncio.create_task(harness.fleet.submit(standalone(f"vm{n}"))) for n in range(100)]
    await harness.store.committing.wait()
    assert not any(task.done() for task in tasks)  # acknowledged only when durable
    harness.store.release()
    await asyncio.gather(*tasks)
    assert len(harness.store.commits) <= 2
    assert len(await harness.store.list_ids(Scope, "", 1000)) == 100


@on_a_controlled_fleet
async def test_commands_are_decided_in_order(harness: ControlledFleet) -> None:
    """Within a batch, each command sees the effects of those before it."""
    submitted = [
        harness.fleet.submit(standalone()),
        harness.fleet.submit(Configure(scope="vm", rules=Rules(reboot_seconds=60))),
        harness.fleet.submit(standalone()),
        harness.fleet.submit(Configure(scope="vm", rules=Rules(reboot_seconds=90))),
    ]
    answers = await asyncio.gather(*submitted, return_exceptions=True)
    assert [type(answer) for answer in answers] == [
        type(None),
        type(None),
        Conflict,
        type(None),
    ]
    assert (await harness.scope()).rules.reboot_seconds == 90
    assert len(harness.store.commits) == 1


@on_a_controlled_fleet
async def test_a_refused_command_does_not_affect_the_others(harness: ControlledFleet) -> None:
    """Each command of a batch gets its own answer."""
    await harness.fleet.submit(standalone("taken", address="10.0.0.1"))
    commands = [
        standalone("a"),
        restart("nowhere"),
        standalone("b", address="10.0.0.1"),  # refused by the store
        standalone("taken"),
        standalone("c", address="10.0.0.2"),
    ]
    answers = await asyncio.gather(
        *(harness.fleet.submit(command) for command in commands), return_exceptions=True
    )
    codes = [getattr(answer, "code", None) for answer in answers]
    assert codes == [None, "UnknownScope", "AddressTaken", "ScopeExists", None]
    assert await harness.store.list_ids(Scope, "", 10) == ["a", "c", "taken"]
    (location,) = (await harness.store.locate_machines(["10.0.0.1"])).values()
    assert location.scope == "taken"


@on_a_controlled_fleet
async def test_nothing_is_visible_before_it_is_durable(harness: ControlledFleet) -> None:
    """During a commit, documents and reads show the previous state."""
    await harness.fleet.submit(standalone())
    published = await harness.fleet.poll("vm")
    before, document = await harness.scope(), published.body("2017-08-01")
    harness.store.hold()
    restarting = asyncio.create_task(harness.fleet.submit(restart()))
    await harness.store.committing.wait()
    assert await harness.scope() == before
    assert (await harness.fleet.poll("vm")).body("2017-08-01") == document
    harness.store.release()
    await restarting
    assert b"Scheduled" in (await harness.fleet.poll("vm")).body("2017-08-01")


@on_a_controlled_fleet
async def test_a_cancelled_submitter(harness: ControlledFleet) -> None:
    """Cancelling a submitter affects no other; its command is carried out completely."""
    harness.store.hold()
    tasks = [asyncio.create_task(harness.fleet.submit(standalone(f"vm{n}"))) for n in range(3)]
    await harness.store.committing.wait()
    late = asyncio.create_task(harness.fleet.submit(standalone("late")))
    await wait_until_async(lambda: len(harness.fleet._queue) == 1)
    for cancelled in (tasks[1], late):
        cancelled.cancel()
    harness.store.release()
    answers = await asyncio.gather(*tasks, late, return_exceptions=True)
    assert [type(answer) for answer in answers] == [
        type(None),
        asyncio.CancelledError,
        type(None),
        asyncio.CancelledError,
    ]
    await harness.fleet.settled()
    assert {"vm0", "vm1", "vm2"} <= set(await harness.store.list_ids(Scope, "", 10))


@on_a_controlled_fleet
async def test_a_refusal_of_a_cancelled_submitter(harness: ControlledFleet) -> None:
    """A refusal of a cancelled submitter is not an internal error."""
    harness.store.hold()
    first = asyncio.create_task(harness.fleet.submit(standalone()))
    gone = asyncio.create_task(harness.fleet.submit(restart("nowhere")))
    await harness.store.committing.wait()
    gone.cancel()
    harness.store.release()
    await asyncio.gather(first, gone, return_exceptions=True)
    assert harness.fleet.broken is None


@pytest.mark.parametrize("turns", range(6))
async def test_no_submitter_hangs_during_a_stop(turns: int) -> None:
    """A client that keeps submitting commands gets an answer to each of them."""

    async def submit_until_stopped() -> int:
        done = 0
        while True:
            rules = Rules(reboot_seconds=done + 1)
            try:
                await harness.fleet.submit(Configure(scope="vm", rules=rules))
            except Unavailable:
                return done
            done += 1

    async with controlled_fleet() as harness:
        await harness.fleet.submit(standalone())
        client = asyncio.create_task(submit_until_stopped())
        for _ in range(turns):
            await asyncio.sleep(0)
        await harness.fleet.stop()
        done, _ = await asyncio.wait([client], timeout=LIMIT_SECONDS)
        client.cancel()
        assert client in done
        await harness.store.open()
        scope = (await harness.store.load([(Scope, "vm")]))[Scope, "vm"]
        assert isinstance(scope, Scope)
        assert scope.rules.reboot_seconds in {900, client.result()}


@pytest.mark.parametrize("cached", [0, 1, 3])
async def test_a_small_cache_changes_nothing(cached: int) -> None:
    """Entities that do not fit in the cache are read from the store; the outcome is the same."""
    async with controlled_fleet(cached=cached) as harness:
        for n in range(5):
            await harness.rebooting(f"vm{n}")
        for n in range(5):
            harness.driver.finish(impact=harness.driver.impacts[n])
        await harness.fleet.settled()
        for n in range(5):
            assert (await harness.operation(f"restart vm{n}")).status == "Succeeded"


@on_a_controlled_fleet
async def test_taken_addresses_are_passed_over_together(
    harness: ControlledFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cost of a new set grows with its size, not with the addresses that others have (M22)."""
    others = [Machine(name=f"by-hand-{n}", address=f"10.0.0.{4 + n}") for n in range(100)]
    await harness.fleet.submit(
        CreateScope(scope="av", kind=ScopeKind.AVAILABILITY_SET, machines=tuple(others))
    )
    run, runs = cascade.run, []

    def counted(command: Command, *rest: Any, **named: Any) -> cascade.Outcome:  # noqa: ANN401
        runs.append(command)
        return run(command, *rest, **named)

    monkeypatch.setattr(cascade, "run", counted)
    await harness.fleet.submit(CreateSet(set="web", capacity=100, subnet="10.0.0.0/24"))
    machines = (await harness.scope("web/0")).machines.values()
    assert {m.address for m in machines} == {f"10.0.0.{104 + n}" for n in range(100)}
    assert len(runs) <= 4
