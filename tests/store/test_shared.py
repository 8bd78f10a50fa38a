"""Stores that several processes share: leases, the change feed, and claims."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from fairwarning.core.errors import Conflict, Unavailable
from fairwarning.core.model import Impact, ImpactKind, Machine, Ref, Scope, ScopeKind
from fairwarning.core.record import changed
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.store import Batch, Heartbeat
from tests.fixtures.postgres.database import database_or_skip, opened
from tests.fixtures.waiting import LIMIT_SECONDS, using
from tests.store.test_opening import refusal

pytestmark = pytest.mark.spec("X1")

A: Ref = (Scope, "a")
LEASE = 2.0  # seconds; long enough for a process on a busy machine to renew it


def scope(version: int = 1, due: float | None = None) -> Scope:
    """Return a scope with this version that becomes due at some time."""
    incarnation = 0 if due is None else 1
    return Scope(
        id="a",
        kind=ScopeKind.STANDALONE,
        version=version,
        incarnation=incarnation,
        polled_at=due or 0.0,
    )


def impact(name: str) -> Impact:
    """Return an impact with this id."""
    return Impact(id=name, scope="a", machine="m", kind=ImpactKind.REBOOT, operation="o")


@asynccontextmanager
async def two_stores() -> AsyncIterator[tuple[PostgresStore, PostgresStore]]:
    """The stores of two processes with one database."""
    url = database_or_skip()
    async with opened(url, lease_seconds=LEASE) as one, opened(url, lease_seconds=LEASE) as other:
        yield one, other


on_two_stores = using(two_stores, 2)


@asynccontextmanager
async def renewing(store: PostgresStore) -> AsyncIterator["asyncio.Queue[Heartbeat]"]:
    """Keep the lease of a store renewed, and provide its heartbeats."""
    heartbeats: asyncio.Queue[Heartbeat] = asyncio.Queue()

    async def follow() -> None:
        async for heartbeat in store.shared.heartbeats():
            heartbeats.put_nowait(heartbeat)

    task = asyncio.create_task(follow())
    try:
        await heartbeats.get()
        yield heartbeats
    finally:
        task.cancel()
        await asyncio.wait([task])


@on_two_stores
async def test_of_two_decisions_on_one_version_one_is_refused(
    first: PostgresStore, second: PostgresStore
) -> None:
    """IK1, also if an entity that was only read has changed, was removed, or was created."""
    await first.commit(Batch(1.0, {A: (None, scope())}))
    for late in (
        Batch(1.0, {A: (None, scope())}),
        Batch(1.0, {(Scope, "b"): (None, scope())}, read={A: None}),
        Batch(1.0, {(Scope, "b"): (None, scope())}, read={A: scope(7)}),
    ):
        with pytest.raises(Conflict) as refused:
            await second.commit(late)
        assert refused.value.code == "Stale"
    await second.commit(Batch(1.0, {A: (scope(), scope(2))}, read={(Scope, "c"): None}))
    assert await first.load([A]) == {A: scope(2)}
    assert await first.load([A, (Scope, "b")]) == {A: scope(2), (Scope, "b"): None}


@on_two_stores
async def test_changes_of_another_process_are_loaded_with_machines(
    first: PostgresStore, second: PostgresStore
) -> None:
    """Whatever changed in the scope; cached machines are not loaded again."""
    random = Random(7)
    expected: dict[Ref, Scope | None] = dict.fromkeys([A, (Scope, "b")])
    for _ in range(300):
        ref = random.choice(list(expected))
        before = expected[ref]
        after = expected[ref] = _next(random, ref[1], before)
        await first.commit(Batch(1.0, {ref: (before, after)}))
        if random.random() < 0.5:
            assert await second.load(expected) == expected
    known = (await second.load([A]))[A]
    assert isinstance(known, Scope)
    later = changed(known, version=known.version + 1, polled_at=9.0)
    await first.commit(Batch(1.0, {A: (known, later)}))
    loaded = (await second.load([A]))[A]
    assert isinstance(loaded, Scope)
    assert loaded == later
    assert loaded.machines is known.machines


def _next(random: Random, name: str, before: Scope | None) -> Scope | None:
    """Return the scope after a random change; it may be removed, or created again."""
    if before is None:
        before = Scope(id=name, kind=ScopeKind.AVAILABILITY_SET, version=0)
    elif random.random() < 0.1 and name != "a":
        return None
    machines = dict(before.machines)
    for number in random.sample(range(6), random.choice((0, 0, 0, 1, 2))):
        if random.random() < 0.5:
            machines.pop(f"{name}{number}", None)
        else:
            machine = Machine(name=f"{name}{number}", zone=str(random.random()))
            machines[machine.name] = machine
    return changed(before, version=before.version + 1, machines=machines)


@on_two_stores
async def test_a_due_entity_is_claimed_until_it_is_written_or_its_process_ends(
    first: PostgresStore, second: PostgresStore
) -> None:
    """No other process is woken by it."""
    async with renewing(first):
        await first.commit(Batch(1.0, {A: (None, scope(due=1.0))}))
        far = 1.0 + 366 * 24 * 3600
        assert await first.due_entities(far, 10) == [A]
        assert await first.due_entities(far, 10) == [A], "it is still claimed"
        assert await second.due_entities(far, 10) == []
        assert await second.next_due() is None
        await second.commit(Batch(1.0, {A: (scope(due=1.0), scope(2, due=2.0))}))
        assert await second.due_entities(far, 10) == [A], "a write ends the claim"
        await second.close()  # ends its claims
        await second.open()
        assert await first.due_entities(far, 10) == [A]


@on_two_stores
async def test_impacts_of_a_process_whose_lease_expired_are_taken_over(
    first: PostgresStore, second: PostgresStore
) -> None:
    """Not earlier, and each by one process only."""
    async with renewing(first) as heartbeats:
        await second.commit(Batch(1.0, impacts=[impact("i1"), impact("i2")]))
        assert await first.unfinished_impacts("", 10) == []
        assert await second.unfinished_impacts("i1", 10) == [impact("i2")], "its own"
        async with asyncio.timeout(LIMIT_SECONDS):
            while not (await heartbeats.get()).orphaned_impacts:
                pass
        assert await first.unfinished_impacts("", 10) == [impact("i1"), impact("i2")]
        assert await second.unfinished_impacts("", 10) == []
        await first.commit(Batch(1.0, settled=["i1"]))
        assert await first.unfinished_impacts("", 10) == [impact("i2")]


@on_two_stores
async def test_a_duty_has_one_process_at_a_time(
    first: PostgresStore, second: PostgresStore
) -> None:
    """Until the process ends or retires."""
    async with renewing(first):
        assert await first.claim_duty("x")
        assert await first.claim_duty("x")
        assert not await second.claim_duty("x")
        assert await second.claim_duty("y")
        await first.shared.retire()
        assert await second.claim_duty("x")
        assert not await first.claim_duty("x")


@on_two_stores
async def test_a_note_is_saved_by_the_process_that_has_its_duty(
    first: PostgresStore, second: PostgresStore
) -> None:
    """It is saved outside any batch, so that the outcome of a lost commit can still be found."""
    assert await first.claim_duty("x")
    assert await first.has_duty("x")
    assert not await first.has_duty("y")
    await first.commit(Batch(1.0, {A: (None, scope())}))
    finished = list(first._writer.finished)
    notes = {"n1": ("x", "1"), "n2": ("x", "2"), "n3": ("y", "3")}
    assert await first.save_notes(notes) == {"n1", "n2"}
    assert first._writer.finished == finished
    await first.shared.end()
    assert await second.claim_duty("x")
    assert await first.save_notes({"n1": ("x", "4")}) == set()
    assert not await first.has_duty("x")
    assert await second.save_notes({"n1": ("x", "5")}) == {"n1"}
    assert await first.list_notes("n", "", 9) == {"n1": "5", "n2": "2"}


@pytest.mark.spec("X2")
@on_two_stores
async def test_all_processes_get_a_heartbeat_after_a_commit(
    first: PostgresStore, second: PostgresStore
) -> None:
    """With the positions of feed and journal and the next due time; notes alone cause none."""
    async with renewing(first) as heartbeats, renewing(second):
        await second.commit(Batch(1.0, notes={"cursor": "1"}))
        await second.commit(Batch(1.0, {A: (None, scope(due=5.0))}))
        async with asyncio.timeout(LIMIT_SECONDS):
            while (heartbeat := await heartbeats.get()).position == 0:
                pass
        assert (heartbeat.position, heartbeat.line, heartbeat.orphaned_impacts) == (1, 0, False)
        assert heartbeat.due == await first.next_due()
        assert [change.scope for change in await first.changes_since(0, 10)] == ["a"]


@on_two_stores
async def test_all_processes_get_the_first_value_of_a_note(
    first: PostgresStore, second: PostgresStore
) -> None:
    """Even if several add it at once."""
    values = await asyncio.gather(
        *(
            store.add_note_if_absent("k", str(number))
            for number, store in enumerate((first, second))
        )
    )
    assert len(set(values)) == 1
    assert await first.get_note("k") == values[0]


def test_an_unreachable_database_is_reported() -> None:
    """At once, and without its location (IS3)."""
    error = refusal(PostgresStore("postgresql://nobody:secret@127.0.0.1:1/none"))
    assert isinstance(error, Unavailable)
    assert error.code == "StoreFailed"
    assert "secret" not in error.message
