"""What only a store does that several processes share: leases, the feed, and who does what."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from random import Random

import psycopg
import pytest

from fairwarning.core.errors import Conflict, InvariantViolated, Unavailable
from fairwarning.core.model import Impact, ImpactKind, Machine, Ref, Scope, ScopeKind
from fairwarning.core.record import changed
from fairwarning.store.postgres import schema
from fairwarning.store.postgres.connections import Connection
from fairwarning.store.postgres.store import PostgresStore, Row
from fairwarning.store.scripts import Migration
from fairwarning.store.store import Batch, Heartbeat
from tests.fixtures.postgres.database import database_or_skip
from tests.fixtures.waiting import LIMIT_SECONDS
from tests.store.author import line_about

A: Ref = (Scope, "a")
LEASE = 2.0  # seconds, in which a process of a busy machine does renew it
Story = Callable[[PostgresStore, PostgresStore], Awaitable[None]]


def scope(version: int = 1, due: float | None = None) -> Scope:
    """A scope in some version, that is to be switched off at some time."""
    on = 0 if due is None else 1
    return Scope(
        id="a", kind=ScopeKind.STANDALONE, version=version, incarnation=on, polled_at=due or 0.0
    )


def impact(name: str) -> Impact:
    """An impact by its id."""
    return Impact(id=name, scope="a", machine="m", kind=ImpactKind.REBOOT, operation="o")


def two(story: Story) -> None:
    """Play a story on two processes' stores of one database."""

    async def whole() -> None:
        url = database_or_skip()
        one, other = (PostgresStore(url, lease_seconds=LEASE) for _ in range(2))
        await one.open()
        await other.open()
        try:
            await story(one, other)
        finally:
            await one.close()
            await other.close()

    asyncio.run(whole())


@asynccontextmanager
async def beating(store: PostgresStore) -> AsyncIterator["asyncio.Queue[Heartbeat]"]:
    """The store is alive, and this is what it hears."""
    heard: asyncio.Queue[Heartbeat] = asyncio.Queue()

    async def follow() -> None:
        async for beat in store.heartbeats():
            heard.put_nowait(beat)

    task = asyncio.create_task(follow())
    try:
        await heard.get()
        yield heard
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.spec("X1")
def test_of_two_who_decided_on_one_state_one_is_told_to_decide_again() -> None:
    """IK1, also when what was only read has changed, or was gone, or has come to be."""

    async def story(one: PostgresStore, other: PostgresStore) -> None:
        await one.commit(Batch(1.0, {A: (None, scope())}))
        for late in (
            Batch(1.0, {A: (None, scope())}),
            Batch(1.0, {(Scope, "b"): (None, scope())}, read={A: None}),
            Batch(1.0, {(Scope, "b"): (None, scope())}, read={A: scope(7)}),
        ):
            with pytest.raises(Conflict) as refused:
                await other.commit(late)
            assert refused.value.code == "Stale"
        await other.commit(Batch(1.0, {A: (scope(), scope(2))}, read={(Scope, "c"): None}))
        assert await one.load([A]) == {A: scope(2)}
        assert await one.load([A, (Scope, "b")]) == {A: scope(2), (Scope, "b"): None}

    two(story)


@pytest.mark.spec("X1")
def test_what_another_process_changed_is_read_with_its_machines() -> None:
    """Whatever became of the scope and of them; those that are known are not read again."""

    async def story(one: PostgresStore, other: PostgresStore) -> None:
        random = Random(7)
        kept: dict[Ref, Scope | None] = dict.fromkeys([A, (Scope, "b")])
        for _ in range(300):
            ref = random.choice(list(kept))
            before = kept[ref]
            after = kept[ref] = _next(random, ref[1], before)
            await one.commit(Batch(1.0, {ref: (before, after)}))
            if random.random() < 0.5:
                assert await other.load(kept) == kept
        known = (await other.load([A]))[A]
        assert isinstance(known, Scope)
        later = changed(known, version=known.version + 1, polled_at=9.0)
        await one.commit(Batch(1.0, {A: (known, later)}))
        found = (await other.load([A]))[A]
        assert isinstance(found, Scope)
        assert found == later
        assert found.machines is known.machines

    two(story)


def _next(random: Random, name: str, before: Scope | None) -> Scope | None:
    """The scope after something was done to it; it may be gone, or there again."""
    if before is None:
        before = Scope(id=name, kind=ScopeKind.AVAILABILITY_SET, version=0)
    elif random.random() < 0.1 and name != "a":
        return None
    machines = dict(before.machines)
    for number in random.sample(range(6), random.choice((0, 0, 0, 1, 2))):
        if random.random() < 0.5:
            machines.pop(f"{name}{number}", None)
        else:
            one = Machine(name=f"{name}{number}", zone=str(random.random()))
            machines[one.name] = one
    return changed(before, version=before.version + 1, machines=machines)


@pytest.mark.spec("X1")
def test_what_is_due_is_one_processes_until_it_is_written_or_that_process_is_gone() -> None:
    """And nobody else is woken by it."""

    async def story(one: PostgresStore, other: PostgresStore) -> None:
        async with beating(one):
            await one.commit(Batch(1.0, {A: (None, scope(due=1.0))}))
            far = 1.0 + 366 * 24 * 3600
            assert await one.due_entities(far, 10) == [A]
            assert await one.due_entities(far, 10) == [A], "it is still ours"
            assert await other.due_entities(far, 10) == []
            assert await other.next_due() is None
            await other.commit(Batch(1.0, {A: (scope(due=1.0), scope(2, due=2.0))}))
            assert await other.due_entities(far, 10) == [A], "written, so anybody's"
            await other.close()  # that is the end of it
            await other.open()
            assert await one.due_entities(far, 10) == [A]

    two(story)


@pytest.mark.spec("X1")
def test_impacts_of_a_process_that_is_silent_are_taken_over() -> None:
    """Not before its lease has run out; and each by one process only."""

    async def story(one: PostgresStore, other: PostgresStore) -> None:
        async with beating(one) as heard:
            await other.commit(Batch(1.0, impacts=[impact("i1"), impact("i2")]))
            assert await one.unfinished_impacts("", 10) == []
            assert await other.unfinished_impacts("i1", 10) == [impact("i2")], "its own"
            async with asyncio.timeout(LIMIT_SECONDS):
                while not (await heard.get()).orphaned_impacts:
                    pass
            assert await one.unfinished_impacts("", 10) == [impact("i1"), impact("i2")]
            assert await other.unfinished_impacts("", 10) == []
            await one.commit(Batch(1.0, settled=["i1"]))
            assert await one.unfinished_impacts("", 10) == [impact("i2")]

    two(story)


@pytest.mark.spec("X1")
def test_a_duty_is_one_processes_at_a_time() -> None:
    """Until it ends, or says that it does nothing more."""

    async def story(one: PostgresStore, other: PostgresStore) -> None:
        async with beating(one):
            assert await one.claim_duty("x")
            assert await one.claim_duty("x")
            assert not await other.claim_duty("x")
            assert await other.claim_duty("y")
            await one.retire()
            assert await other.claim_duty("x")
            assert not await one.claim_duty("x")

    two(story)


@pytest.mark.spec("X2")
def test_a_commit_is_heard_at_once_by_everybody() -> None:
    """With where the feed, the journal and the timers are; notes alone are nobody's news."""

    async def story(one: PostgresStore, other: PostgresStore) -> None:
        async with beating(one) as heard, beating(other):
            await other.commit(Batch(1.0, notes={"cursor": "1"}))
            await other.commit(Batch(1.0, {A: (None, scope(due=5.0))}))
            async with asyncio.timeout(LIMIT_SECONDS):
                while (beat := await heard.get()).position == 0:
                    pass
            assert (beat.position, beat.line, beat.orphaned_impacts) == (1, 0, False)
            assert beat.due == await one.next_due()
            assert [change.scope for change in await one.changes_since(0, 10)] == ["a"]

    two(story)


def test_the_first_value_of_a_note_is_everybodys() -> None:
    """However many want to be the first."""

    async def story(one: PostgresStore, other: PostgresStore) -> None:
        kept = await asyncio.gather(
            *(s.add_note_if_absent("k", str(n)) for n, s in enumerate((one, other)))
        )
        assert len(set(kept)) == 1
        assert await one.get_note("k") == kept[0]

    two(story)


@pytest.mark.spec("X3")
def test_a_commit_whose_connection_was_lost_is_looked_for() -> None:
    """Cut off after the database took it, it is acknowledged; before, it is not, nor is it done."""

    async def story(one: PostgresStore, other: PostgresStore) -> None:
        taken = one._execute
        arrives = True

        async def cut(connection: Connection, query: str, **values: object) -> list[Row]:
            if query != "commit_batch" or arrives:
                found = await taken(connection, query, **values)
                if query != "commit_batch":
                    return found
            await connection.close()
            raise psycopg.OperationalError("the line is cut")

        one._execute = cut  # type: ignore[method-assign]
        await one.commit(Batch(1.0, {A: (None, scope())}))
        assert await other.load([A]) == {A: scope()}
        arrives = False
        with pytest.raises(Unavailable):
            await one.commit(Batch(1.0, {A: (scope(), scope(2))}))
        assert await other.load([A]) == {A: scope()}

    two(story)


@pytest.mark.spec("X1")
def test_a_new_part_of_the_journal_is_made_in_time_and_old_ones_are_dropped() -> None:
    """Lines go on over the edge; the part that is written to stays, however old it is."""

    async def story(one: PostgresStore, other: PostgresStore) -> None:
        async with one._connections.acquire() as connection:
            await connection.execute("UPDATE head SET line = 999998")
        for at in (1.0, 2.0, 3.0, 4.0):
            await one.commit(Batch(at, lines=[line_about(A, at=at)]))
        numbers = [entry.number for entry in await other.journal()]
        assert numbers == [999999, 1000000, 1000001, 1000002]
        assert await other.drop_old_lines(1.0) == 0
        assert await other.drop_old_lines(9.0) == 1
        assert await other.drop_old_lines(9.0) == 0
        assert [entry.number for entry in await one.latest_lines(9)] == numbers[:0:-1]
        assert await one.journal(entity=A, limit=9) == await other.journal()
        await one.commit(Batch(5.0, lines=[line_about(A, at=5.0)]))

    two(story)


# --- The schema -----------------------------------------------------------------------------------

SHIPPED = schema.migrations()
NEXT = len(SHIPPED) + 1


def step(text: str, needs: int) -> Migration:
    """A step that a later version may bring."""
    return Migration(NEXT, f"{NEXT:04}_later.sql", f"-- needs: {needs}\n{text}")


def opened(url: str, *steps: Migration) -> str:
    """The error code of a version with these steps; empty if it opens and works."""

    async def whole() -> None:
        store = PostgresStore(url, migrations=[*SHIPPED, *steps])
        await store.open()
        try:
            name = f"v{len(await store.changes_since(0, 99))}"
            await store.commit(Batch(1.0, {(Scope, name): (None, scope())}))
        finally:
            await store.close()

    try:
        asyncio.run(whole())
    except (Unavailable, InvariantViolated) as error:
        return error.code
    return ""


def test_older_code_runs_beside_a_newer_schema_that_says_so() -> None:
    """Expand first: the old version is started again while the new one takes over."""
    url = database_or_skip()
    added = step("ALTER TABLE note ADD COLUMN colour text;", needs=1)
    assert opened(url) == ""
    assert opened(url, added) == ""
    assert opened(url) == ""


def test_older_code_leaves_a_schema_alone_that_it_does_not_know() -> None:
    """And says what to do."""
    url = database_or_skip()
    assert opened(url, step("ALTER TABLE note RENAME TO remark;", needs=NEXT)) == "StoreFailed"
    assert opened(url) == "StoreNewer"


def test_a_step_that_fails_leaves_the_schema_as_it_was() -> None:
    """All steps or none; a text that was changed is noticed."""
    url = database_or_skip()
    assert opened(url) == ""
    assert opened(url, step("CREATE TABLE t (a int); CREATE TABLE t (a int);", 1)) == "StoreFailed"
    assert opened(url) == ""
    edited = Migration(1, SHIPPED[0].name, SHIPPED[0].text + "-- edited\n")

    async def whole() -> None:
        await PostgresStore(url, migrations=[edited]).open()

    with pytest.raises(InvariantViolated) as refused:
        asyncio.run(whole())
    assert refused.value.code == "StoreChanged"


def test_many_who_open_an_empty_database_at_once_make_the_schema_once() -> None:
    """Under a lock."""
    url = database_or_skip()

    async def whole() -> None:
        stores = [PostgresStore(url) for _ in range(8)]
        await asyncio.gather(*(store.open() for store in stores))
        for store in stores:
            await store.close()

    asyncio.run(whole())
    assert opened(url) == ""


def test_a_database_that_is_not_there_is_said_to_be_away() -> None:
    """At once, and without telling where it is looked for (IS3)."""

    async def whole() -> None:
        await PostgresStore("postgresql://nobody:secret@127.0.0.1:1/none").open()

    with pytest.raises(Unavailable) as refused:
        asyncio.run(whole())
    assert refused.value.code == "StoreFailed"
    assert "secret" not in refused.value.message
