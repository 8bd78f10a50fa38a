"""Many submitters, one writer: grouping, isolation, order, stopping."""

import asyncio

import pytest

from fairwarning.core.commands import Approve, Configure, Restart
from fairwarning.core.errors import Conflict, FairwarningError, NotFound, Refused, Unavailable
from fairwarning.core.model import EventStatus, Operation, Rules, Scope
from tests.fixtures.controlled_fleet import ControlledStore, controlled_fleet
from tests.fixtures.fleet import NOON, restart, standalone
from tests.fixtures.waiting import LIMIT_SECONDS, run_async, wait_until_async


@run_async
async def test_submitters_share_commits() -> None:
    """Commands that wait while a commit is under way are committed together, each answered."""
    async with controlled_fleet() as it:
        it.store.hold()
        tasks = [asyncio.create_task(it.fleet.submit(standalone(f"vm{n}"))) for n in range(100)]
        await it.store.committing.wait()
        assert not any(task.done() for task in tasks)  # acknowledged only when durable
        it.store.release()
        await asyncio.gather(*tasks)
        assert len(it.store.commits) <= 2
        assert len(await it.store.names(Scope, "", 1000)) == 100


@run_async
async def test_commands_are_decided_in_order() -> None:
    """Within a batch each command sees what those before it did."""
    async with controlled_fleet() as it:
        submitted = [
            it.fleet.submit(standalone()),
            it.fleet.submit(Configure(scope="vm", rules=Rules(reboot_seconds=60))),
            it.fleet.submit(standalone()),
            it.fleet.submit(Configure(scope="vm", rules=Rules(reboot_seconds=90))),
        ]
        answers = await asyncio.gather(*submitted, return_exceptions=True)
        assert [type(answer) for answer in answers] == [
            type(None),
            type(None),
            Conflict,
            type(None),
        ]
        assert (await it.scope()).rules.reboot_seconds == 90
        assert len(it.store.commits) == 1


@run_async
async def test_one_bad_command_does_not_hurt_the_others() -> None:
    """Each gets its own answer, whoever shares its batch."""
    async with controlled_fleet() as it:
        await it.fleet.submit(standalone("taken", address="10.0.0.1"))
        commands = [
            standalone("a"),
            restart("nowhere"),
            standalone("b", address="10.0.0.1"),  # the store refuses that one
            standalone("taken"),
            standalone("c", address="10.0.0.2"),
        ]
        answers = await asyncio.gather(
            *(it.fleet.submit(command) for command in commands), return_exceptions=True
        )
        codes = [getattr(answer, "code", None) for answer in answers]
        assert codes == [None, "UnknownScope", "AddressTaken", "ScopeExists", None]
        assert await it.store.names(Scope, "", 10) == ["a", "c", "taken"]
        (place,) = await it.store.find(address="10.0.0.1")
        assert place.scope == "taken"


@run_async
async def test_a_refusal_never_rests_on_what_was_thrown_out() -> None:
    """Two scopes of one name, the first impossible: the second is made."""
    async with controlled_fleet() as it:
        await it.fleet.submit(standalone("taken", address="10.0.0.1"))
        bad, good = await asyncio.gather(
            it.fleet.submit(standalone("vm", address="10.0.0.1")),
            it.fleet.submit(standalone("vm", address="10.0.0.2")),
            return_exceptions=True,
        )
        assert isinstance(bad, Conflict)
        assert good is None
        assert (await it.scope()).machines["vm"].address == "10.0.0.2"


@run_async
async def test_concurrent_approvals_cause_one_start() -> None:
    """However many machines approve at once, an event starts once (IL7)."""
    async with controlled_fleet() as it:
        await it.fleet.submit(standalone())
        await it.fleet.poll("vm")
        await it.fleet.submit(restart())
        (event,) = (await it.scope()).events
        approvals = [Approve(scope="vm", events=(event,), actor=f"m{n}") for n in range(20)]
        await asyncio.gather(*(it.fleet.submit(approval) for approval in approvals))
        assert len(it.driver.given) == 1
        started = (await it.scope()).events[event]
        assert (started.status, started.approved_by) == (EventStatus.STARTED, "m0")


@run_async
async def test_concurrent_repeats_have_the_effect_of_one() -> None:
    """The same operation submitted by several at once is accepted once; all get it (IC2)."""
    async with controlled_fleet() as it:
        await it.fleet.submit(standalone())
        answers = await asyncio.gather(*(it.fleet.submit(restart()) for _ in range(10)))
        assert all(isinstance(answer, Operation) for answer in answers)
        assert len({answer.id for answer in answers if answer}) == 1
        assert len(it.driver.given) == 1


@run_async
async def test_nothing_is_visible_before_it_is_durable() -> None:
    """While a commit is under way, documents and reads show what was before."""
    async with controlled_fleet() as it:
        await it.fleet.submit(standalone())
        published = await it.fleet.poll("vm")
        before, document = await it.scope(), published.body("2017-08-01")
        it.store.hold()
        restarting = asyncio.create_task(it.fleet.submit(restart()))
        await it.store.committing.wait()
        assert await it.scope() == before
        assert (await it.fleet.poll("vm")).body("2017-08-01") == document
        it.store.release()
        await restarting
        assert b"Scheduled" in (await it.fleet.poll("vm")).body("2017-08-01")


@run_async
async def test_a_submitter_who_gives_up() -> None:
    """A cancelled submitter hurts nobody; what it had submitted is done, whole."""
    async with controlled_fleet() as it:
        it.store.hold()
        tasks = [asyncio.create_task(it.fleet.submit(standalone(f"vm{n}"))) for n in range(3)]
        await it.store.committing.wait()
        late = asyncio.create_task(it.fleet.submit(standalone("late")))
        await wait_until_async(lambda: len(it.fleet._queue) == 1)
        for impatient in (tasks[1], late):
            impatient.cancel()
        it.store.release()
        answers = await asyncio.gather(*tasks, late, return_exceptions=True)
        assert [type(answer) for answer in answers] == [
            type(None),
            asyncio.CancelledError,
            type(None),
            asyncio.CancelledError,
        ]
        await it.fleet.settled()
        assert {"vm0", "vm1", "vm2"} <= set(await it.store.names(Scope, "", 10))


@run_async
async def test_a_refused_submitter_who_has_gone() -> None:
    """A refusal that nobody waits for any more is not an error of ours."""
    async with controlled_fleet() as it:
        it.store.hold()
        first = asyncio.create_task(it.fleet.submit(standalone()))
        gone = asyncio.create_task(it.fleet.submit(restart("nowhere")))
        await it.store.committing.wait()
        gone.cancel()
        it.store.release()
        await asyncio.gather(first, gone, return_exceptions=True)
        assert it.fleet.broken is None


@run_async
async def test_stop_answers_everybody() -> None:
    """What was submitted before a stop is done; what comes after is refused as unavailable."""
    store = ControlledStore()
    async with controlled_fleet(store) as it:
        tasks = [asyncio.create_task(it.fleet.submit(standalone(f"vm{n}"))) for n in range(5)]
        await wait_until_async(lambda: len(it.fleet._queue) == 5)
        await it.fleet.stop()
        await asyncio.gather(*tasks)
        with pytest.raises(Unavailable, match="Stopping"):
            await it.fleet.submit(standalone("late"))
    async with controlled_fleet(store) as it:
        assert len(await it.store.names(Scope, "", 10)) == 5


@pytest.mark.parametrize("turns", range(6))
@run_async
async def test_nobody_hangs_over_a_stop(turns: int) -> None:
    """A client that submits one command after another gets an answer to every one of them."""

    async def submit_on() -> int:
        done = 0
        while True:
            rules = Rules(reboot_seconds=done + 1)
            try:
                await it.fleet.submit(Configure(scope="vm", rules=rules))
            except Unavailable:
                return done
            done += 1

    async with controlled_fleet() as it:
        await it.fleet.submit(standalone())
        client = asyncio.create_task(submit_on())
        for _ in range(turns):
            await asyncio.sleep(0)
        await it.fleet.stop()
        done, _ = await asyncio.wait([client], timeout=LIMIT_SECONDS)
        client.cancel()
        assert client in done
        await it.store.open()
        scope = (await it.store.load([(Scope, "vm")]))[Scope, "vm"]
        assert isinstance(scope, Scope)
        assert scope.rules.reboot_seconds in {900, client.result()}


@run_async
async def test_a_stop_writes_what_was_held_back() -> None:
    """Commands and polls taken before the stop are durable after it."""
    store = ControlledStore()
    async with controlled_fleet(store) as it:
        await it.fleet.submit(standalone())
        await it.fleet.poll("vm")
        await it.fleet.advance(10)
        await it.fleet.poll("vm")
        await it.fleet.advance(10)
        await it.fleet.poll("vm")
    async with controlled_fleet(store) as it:
        assert (await it.scope()).polled_at == NOON + 20


@pytest.mark.parametrize("cached", [0, 1, 3])
@run_async
async def test_a_small_cache_changes_nothing(cached: int) -> None:
    """What does not fit in memory is read from the store; the outcome is the same."""
    async with controlled_fleet(cached=cached) as it:
        for n in range(5):
            await it.rebooting(f"vm{n}")
        for n in range(5):
            it.driver.finish(impact=it.driver.given[n])
        await it.fleet.settled()
        for n in range(5):
            operation = await it.fleet.read(Operation, f"restart vm{n}")
            assert operation is not None
            assert operation.status == "Succeeded"


@pytest.mark.parametrize("command", [None, "restart", 7, Restart])
@run_async
async def test_what_is_no_command_reaches_no_batch(command: object) -> None:
    """It is refused at the door, without a commit."""
    async with controlled_fleet() as it:
        with pytest.raises(Refused, match="BadCommand"):
            await it.fleet.submit(command)  # type: ignore[arg-type]
        assert it.store.commits == []


@run_async
async def test_reading_what_is_not_there() -> None:
    """A read says None; a poll says that there is no such scope."""
    async with controlled_fleet() as it:
        assert await it.fleet.read(Scope, "nowhere") is None
        with pytest.raises(NotFound) as error:
            await it.fleet.poll("nowhere")
        assert isinstance(error.value, FairwarningError)
        assert it.fleet.documents.get("nowhere") is None
