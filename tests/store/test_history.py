"""The journal, the change feed, notes, and the recorded polls."""

import pytest

from fairwarning.core.cascade import JournalLine
from fairwarning.core.decision import Fact, FactType
from fairwarning.core.model import Operation, Ref, Scope, ScopeKind
from fairwarning.store.store import Batch, ScopeChange, Store
from tests.store.batch_generator import line_about
from tests.store.conftest import on_open_store, restart

A: Ref = (Scope, "a")
B: Ref = (Scope, "b")


def scope(name: str, version: int = 1) -> Scope:
    """Return a scope with this version."""
    return Scope(id=name, kind=ScopeKind.STANDALONE, version=version)


@on_open_store
async def test_the_journal_comes_in_pages(store: Store) -> None:
    """After a number, up to a limit, also with a filter; an unknown entity has no lines."""
    lines = [
        line_about(A, "e1"),
        line_about(B),
        line_about(A),
        line_about(B, "e1"),
        line_about(A, "e1"),
        line_about(A, "e2"),
    ]
    for line in lines[:2]:
        await store.commit(Batch(1.0, lines=[line]))
    await store.commit(Batch(1.0, lines=lines[2:]))

    async def numbers(
        after: int = 0, limit: int = 99, entity: Ref | None = None, event: str = ""
    ) -> list[int]:
        entries = await store.journal(after=after, limit=limit, entity=entity, event=event)
        assert all(lines[entry.number - 1] == entry.line for entry in entries)
        return [entry.number for entry in entries]

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


@on_open_store
async def test_an_old_event_is_found_below_thousands_of_newer_lines(store: Store) -> None:
    """All its lines and in order, however many lines its scope has since."""
    await store.commit(
        Batch(1.0, lines=[line_about(A, "e1"), line_about(B, "e0"), line_about(A, "e1")])
    )
    for start in range(0, 6000, 500):
        lines = [line_about(A, f"later-{start + n}") for n in range(500)]
        await store.commit(Batch(2.0, lines=lines))
    await store.commit(Batch(3.0, lines=[line_about(A, "e1")]))
    await restart(store)
    for entity in (None, A):
        entries = await store.journal(event="e1", entity=entity)
        assert [entry.number for entry in entries] == [1, 3, 6004]
    assert [entry.number for entry in await store.journal(event="later-0")] == [4]
    assert [entry.number for entry in await store.latest_lines(1)] == [6004]
    assert [entry.number for entry in await store.latest_lines(2, entity=B)] == [2]


@on_open_store
async def test_a_line_can_have_any_text(store: Store) -> None:
    """It is unchanged: quotes, other scripts, control characters, and empty strings."""
    lines = [
        line_about(A, detail=why)
        for why in ("", "'; --", "été „ß“ 雪 🙂", "a\0b\n\r\t", "x" * 5000)
    ]
    await store.commit(Batch(1.0, lines=lines))
    await restart(store)
    assert [entry.line for entry in await store.journal()] == lines


@on_open_store
async def test_the_feed_has_the_latest_change_of_each_scope(store: Store) -> None:
    """Positions increase; a reader that continues misses no change or removal of a scope."""
    seen: list[ScopeChange] = []

    async def read_changes() -> list[str]:
        changes = await store.changes_since(seen[-1].position if seen else 0, 100)
        positions = [change.position for change in [*seen[-1:], *changes]]
        assert positions == sorted(set(positions))
        seen.extend(changes)
        return [change.scope for change in changes]

    created = {(Scope, name): (None, scope(name)) for name in "abc"}
    await store.commit(Batch(1.0, created))  # type: ignore[arg-type]
    assert await read_changes() == ["a", "b", "c"]
    operation = Operation(id="o", kind="", actor="", accepted_at=0.0, version=1)
    await store.commit(Batch(2.0, {(Operation, "o"): (None, operation)}))
    assert await read_changes() == []
    await store.commit(Batch(3.0, {A: (scope("a"), scope("a", 2))}))
    await store.commit(Batch(4.0, {B: (scope("b"), None)}))
    await restart(store)
    assert await read_changes() == ["a", "b"]
    assert [change.scope for change in await store.changes_since(0, 100)] == ["c", "a", "b"]
    assert [change.scope for change in await store.changes_since(0, 1)] == ["c"]
    await store.commit(Batch(5.0, {B: (None, scope("b")), A: (scope("a", 2), scope("a", 3))}))
    assert await read_changes() == ["b", "a"]
    assert len(await store.changes_since(0, 100)) == 3


@on_open_store
async def test_notes_are_stored_by_name(store: Store) -> None:
    """The last value counts; a batch may have only notes."""
    assert await store.get_note("clock") is None
    await store.commit(Batch(1.0, notes={"clock": "1", "incarnation": ""}))
    await store.commit(Batch(2.0, notes={"clock": "{}"}))
    await restart(store)
    assert await store.get_note("clock") == "{}"
    assert await store.get_note("incarnation") == ""
    assert await store.changes_since(0, 9) == []


@on_open_store
async def test_notes_are_listed_by_prefix(store: Store) -> None:
    """In order of name, in pages; other prefixes are left out."""
    notes = {"a": "0", "b 1": "1", "b 2": "2", "b 3": "3", "b": "4", "b!": "5", "c": "6"}
    await store.commit(Batch(1.0, notes=notes))
    assert list((await store.list_notes("b ", "", 9)).items()) == [
        ("b 1", "1"), ("b 2", "2"), ("b 3", "3"),
    ]  # fmt: skip
    assert await store.list_notes("b ", "", 2) == {"b 1": "1", "b 2": "2"}
    assert await store.list_notes("b ", "b 2", 2) == {"b 3": "3"}
    assert await store.list_notes("b ", "b 3", 2) == {}
    assert await store.list_notes("x", "", 9) == {}


@on_open_store
async def test_notes_of_a_duty_are_kept(store: Store) -> None:
    """If this process has the duty; a later value replaces an earlier one."""
    assert await store.claim_duty("duty")
    assert await store.has_duty("duty")
    assert await store.save_notes({}) == set()
    notes = {"n 1": ("duty", "1"), "n 2": ("duty", "2")}
    assert await store.save_notes(notes) == {"n 1", "n 2"}
    assert await store.save_notes({"n 2": ("duty", "3")}) == {"n 2"}
    await restart(store)
    assert await store.list_notes("n ", "", 9) == {"n 1": "1", "n 2": "3"}


@on_open_store
async def test_removed_notes_are_gone(store: Store) -> None:
    """Also after a restart; the others stay, as do those that have changed since."""
    notes = {f"n {number}": "" for number in range(200)}
    await store.commit(Batch(1.0, notes=notes))
    await store.drop_notes({})
    await store.commit(Batch(1.0, notes={"n 0": "changed"}))
    await store.drop_notes({**dict(list(notes.items())[:150]), "unknown": ""})
    await restart(store)
    assert set(await store.list_notes("n ", "", 999)) == {"n 0", *list(notes)[150:]}


@on_open_store
async def test_old_lines_are_dropped_and_newer_ones_stay(store: Store) -> None:
    """Lines are dropped in order; a database may keep old ones until a whole section is old."""
    for first in range(0, 2500, 100):
        lines_of = [
            JournalLine(float(n), "x", A if n % 2 else B, Fact(FactType.STARTED, f"e{n}"))
            for n in range(first, first + 100)
        ]
        await store.commit(Batch(float(first), lines=lines_of))
    everything = await store.journal(limit=9999)
    assert await store.drop_old_lines(0.0) == 0
    dropped = 0
    while lines := await store.drop_old_lines(1700.0):
        dropped += lines
    remaining = [entry for entry in everything if entry.number > dropped]
    assert dropped == (0 if store.shared else 1700)
    assert await store.journal(limit=9999) == remaining
    for ref in (A, B):
        own = [entry for entry in remaining if entry.line.entity == ref]
        assert await store.journal(limit=9999, entity=ref) == own
        assert await store.latest_lines(9999, entity=ref) == own[::-1]
    assert await store.journal(event="e1800") == [everything[1800]]
    if dropped:
        assert await store.journal(event="e3") == []
    await restart(store)
    await store.commit(Batch(1.0, lines=[line_about(A)]))
    assert [entry.number for entry in await store.latest_lines(1)] == [2501]


@on_open_store
async def test_the_newer_lines_of_an_event_stay_when_its_first_is_dropped(store: Store) -> None:
    """They are found by the event until the last of them is old; lines may be added meanwhile."""
    for at in (1.0, 2.0, 3.0):
        await store.commit(Batch(at, lines=[line_about(A, "e", at=at)]))
    everything = await store.journal()
    dropped = await store.drop_old_lines(2.0)
    assert await store.journal(event="e") == everything[dropped:]
    await store.commit(Batch(4.0, lines=[line_about(A, "e", at=4.0)]))
    newest = await store.latest_lines(1)
    assert await store.journal(event="e") == everything[dropped:] + newest
    while lines := await store.drop_old_lines(4.0):
        dropped += lines
    assert await store.journal(event="e") == (everything + newest)[dropped:]


# --- Polls, which are apart from the entities -----------------------------------------------------


@pytest.mark.spec("X5")
@on_open_store
async def test_polls_are_recorded_and_survive_a_restart(store: Store) -> None:
    """Many scopes at once; the latest time of each counts, in whatever order they come."""
    before = await store.position()
    await store.record_polls({})
    await store.record_polls({f"vm-{n}": 100.0 + n for n in range(100)})
    await store.record_polls({"vm-1": 500.5, "vm-2": 50.0, "other": 7.0})
    await restart(store)
    names = ["vm-1", "vm-2", "vm-99", "other", "unknown"]
    expected = {"vm-1": 500.5, "vm-2": 102.0, "vm-99": 199.0, "other": 7.0}
    assert await store.recorded_polls(names) == expected
    assert await store.recorded_polls([]) == {}
    assert (await store.position(), await store.journal()) == (before, [])


@pytest.mark.spec("X5")
@on_open_store
async def test_the_polls_of_a_removed_scope_are_dropped(store: Store) -> None:
    """Together with what is left of the scope itself; the polls of others stay."""
    await store.commit(Batch(1.0, {A: (None, scope("a")), B: (None, scope("b"))}))
    await store.record_polls({"a": 9.0, "b": 9.0})
    assert await store.load([A]) == {A: scope("a")}
    await store.commit(Batch(2.0, {A: (scope("a"), None)}))
    assert await store.drop_tombstones(await store.position()) == 1
    assert await store.recorded_polls(["a", "b"]) == {"b": 9.0}
