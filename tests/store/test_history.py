"""What happened: the journal, the change feed, and the notes beside them."""

from fairwarning.core.cascade import JournalLine
from fairwarning.core.decision import Fact, FactType
from fairwarning.core.model import Operation, Ref, Scope, ScopeKind
from fairwarning.store.store import Batch, ScopeChange, Store
from tests.store.author import Author, line_about
from tests.store.conftest import Kept, restart

A: Ref = (Scope, "a")
B: Ref = (Scope, "b")


def scope(name: str, version: int = 1) -> Scope:
    """A scope in some version."""
    return Scope(id=name, kind=ScopeKind.STANDALONE, version=version)


def test_the_journal_can_be_asked_for_an_entity_or_an_event(kept: Kept) -> None:
    """Every line once, in order, with everything it says, over all batches and restarts."""
    author = Author(5)

    async def story(store: Store) -> None:
        for _ in range(40):
            await store.commit(author.random_batch(6))
        await restart(store)
        await store.commit(author.random_batch(6))
        entries = await store.journal(limit=10_000)
        assert [entry.line for entry in entries] == author.lines
        for ref in {entry.line.entity for entry in entries}:
            assert await store.journal(limit=10_000, entity=ref) == [
                entry for entry in entries if entry.line.entity == ref
            ]
        events = {entry.line.fact.event for entry in entries} - {""}
        assert len(events) > 5
        for event in events:
            of_event = [entry for entry in entries if entry.line.fact.event == event]
            assert await store.journal(event=event) == of_event
            assert await store.journal(event=event, entity=of_event[0].line.entity) == of_event

    kept(story)


def test_the_journal_comes_in_pages(kept: Kept) -> None:
    """From past a number, at most so many, also when filtered; what is unknown has no lines."""
    lines = [
        line_about(A, "e1"),
        line_about(B),
        line_about(A),
        line_about(B, "e1"),
        line_about(A, "e1"),
        line_about(A, "e2"),
    ]

    async def story(store: Store) -> None:
        for line in lines[:2]:
            await store.commit(Batch(1.0, lines=[line]))
        await store.commit(Batch(1.0, lines=lines[2:]))

        async def numbers(
            after: int = 0, limit: int = 99, entity: Ref | None = None, event: str = ""
        ) -> list[int]:
            found = await store.journal(after=after, limit=limit, entity=entity, event=event)
            assert all(lines[entry.number - 1] == entry.line for entry in found)
            return [entry.number for entry in found]

        assert await numbers() == [1, 2, 3, 4, 5, 6]
        assert await numbers(after=2, limit=3) == [3, 4, 5]
        assert await numbers(after=6) == []
        assert await numbers(after=-5, limit=1) == [1]
        assert await numbers(entity=A) == [1, 3, 5, 6]
        assert await numbers(entity=A, after=1, limit=2) == [3, 5]
        assert await numbers(entity=B, after=4) == []
        assert await numbers(event="e1") == [1, 4, 5]
        assert await numbers(event="e1", after=1, limit=1) == [4]
        assert await numbers(event="e1", entity=A) == [1, 5]
        assert await numbers(event="e1", entity=A, after=1) == [5]
        assert await numbers(event="E1") == []
        assert await numbers(entity=(Operation, "a")) == []
        assert await numbers(event="e2", entity=B) == []

    kept(story)


def test_a_line_can_say_anything(kept: Kept) -> None:
    """Text goes in and out as it is: quotes, other scripts, control characters, nothing."""
    lines = [
        line_about(A, detail=why)
        for why in ("", "'; --", "été „ß“ 雪 🙂", "a\0b\n\r\t", "x" * 5000)
    ]

    async def story(store: Store) -> None:
        await store.commit(Batch(1.0, lines=lines))
        await restart(store)
        assert [entry.line for entry in await store.journal()] == lines

    kept(story)


def test_the_feed_shows_each_scope_at_its_newest_change(kept: Kept) -> None:
    """Positions only grow; who reads on from one misses no scope that changed or went since."""

    async def story(store: Store) -> None:
        seen: list[ScopeChange] = []

        async def news() -> list[str]:
            fresh = await store.changes_since(seen[-1].position if seen else 0, 100)
            positions = [change.position for change in [*seen[-1:], *fresh]]
            assert positions == sorted(set(positions))
            seen.extend(fresh)
            return [change.scope for change in fresh]

        made = {(Scope, name): (None, scope(name)) for name in "abc"}
        await store.commit(Batch(1.0, made))  # type: ignore[arg-type]
        assert await news() == ["a", "b", "c"]
        operation = Operation(id="o", kind="", actor="", accepted_at=0.0, version=1)
        await store.commit(Batch(2.0, {(Operation, "o"): (None, operation)}))
        assert await news() == []
        await store.commit(Batch(3.0, {A: (scope("a"), scope("a", 2))}))
        await store.commit(Batch(4.0, {B: (scope("b"), None)}))
        await restart(store)
        assert await news() == ["a", "b"]
        assert [change.scope for change in await store.changes_since(0, 100)] == ["c", "a", "b"]
        assert [change.scope for change in await store.changes_since(0, 1)] == ["c"]
        await store.commit(Batch(5.0, {B: (None, scope("b")), A: (scope("a", 2), scope("a", 3))}))
        assert await news() == ["b", "a"]
        assert len(await store.changes_since(0, 100)) == 3

    kept(story)


def test_positions_never_come_twice(kept: Kept) -> None:
    """Not even when the newest scope goes, or a batch is refused, before a restart."""

    async def story(store: Store) -> None:
        await store.commit(Batch(1.0, {A: (None, scope("a"))}))
        await store.commit(Batch(2.0, {A: (scope("a"), None)}))
        (gone,) = await store.changes_since(0, 9)
        await restart(store)
        await store.commit(Batch(3.0, {B: (None, scope("b"))}))
        (_, new) = await store.changes_since(0, 9)
        assert new.position > gone.position

    kept(story)


def test_the_feed_holds_through_very_many_changes(kept: Kept) -> None:
    """A scope that changes all the time stands in the feed once."""

    async def story(store: Store) -> None:
        await store.commit(Batch(1.0, {A: (None, scope("a")), B: (None, scope("b"))}))
        for version in range(1, 600):
            await store.commit(Batch(1.0, {A: (scope("a", version), scope("a", version + 1))}))
        changes = await store.changes_since(0, 9)
        assert [change.scope for change in changes] == ["b", "a"]
        assert await store.changes_since(changes[0].position, 9) == changes[1:]
        assert await store.changes_since(changes[1].position, 9) == []

    kept(story)


def test_notes_are_kept_by_name(kept: Kept) -> None:
    """The last value counts; a batch may hold nothing else."""

    async def story(store: Store) -> None:
        assert await store.get_note("clock") is None
        await store.commit(Batch(1.0, notes={"clock": "1", "incarnation": ""}))
        await store.commit(Batch(2.0, notes={"clock": "{}"}))
        await restart(store)
        assert await store.get_note("clock") == "{}"
        assert await store.get_note("incarnation") == ""
        assert await store.changes_since(0, 9) == []

    kept(story)


def test_old_lines_are_dropped_and_newer_ones_stay(kept: Kept) -> None:
    """At the latest when a store drops them: one in memory ends with its process anyway."""

    async def story(store: Store) -> None:
        for first in range(0, 2500, 100):
            lines_of = [
                JournalLine(float(n), "x", A if n % 2 else B, Fact(FactType.STARTED, f"e{n}"))
                for n in range(first, first + 100)
            ]
            await store.commit(Batch(float(first), lines=lines_of))
        whole = await store.journal(limit=9999)
        assert await store.drop_old_lines(0.0) == 0
        dropped = 0
        while lines := await store.drop_old_lines(1700.0):
            dropped += lines
        left = [entry for entry in whole if entry.number > dropped]
        assert dropped in {0, 1700}
        assert await store.journal(limit=9999) == left
        for ref in (A, B):
            own = [entry for entry in left if entry.line.entity == ref]
            assert await store.journal(limit=9999, entity=ref) == own
            assert await store.latest_lines(9999, entity=ref) == own[::-1]
        assert await store.journal(event="e1800") == [whole[1800]]
        if dropped:
            assert await store.journal(event="e3") == []
        await restart(store)
        await store.commit(Batch(1.0, lines=[line_about(A)]))
        assert [entry.number for entry in await store.latest_lines(1)] == [2501]

    kept(story)
