"""The journal's newest lines, the scopes that have events, and the machines of a scope."""

from random import Random

from fairwarning.core.commands import CreateScope, Maintain, Poll
from fairwarning.core.model import Machine, Operation, Ref, Scope, ScopeKind
from fairwarning.store.store import Batch, Store
from tests.store.author import Author, line_about
from tests.store.conftest import Kept, restart

A: Ref = (Scope, "a")
B: Ref = (Scope, "b")


def test_the_newest_lines_are_the_journal_backwards(kept: Kept) -> None:
    """Of all, and of one entity; over batches and restarts; a page before any number."""
    author = Author(11)

    async def story(store: Store) -> None:
        for _ in range(40):
            await store.commit(author.random_batch(6))
        await restart(store)
        await store.commit(author.random_batch(6))
        whole = (await store.journal(limit=10_000))[::-1]
        assert await store.latest_lines(10_000) == whole
        assert await store.latest_lines(7) == whole[:7]
        for before in (1, 2, whole[0].number, whole[0].number + 1, 10**15):
            older = [entry for entry in whole if entry.number < before]
            assert await store.latest_lines(5, before=before) == older[:5]
        for ref in {entry.line.entity for entry in whole}:
            own = [entry for entry in whole if entry.line.entity == ref]
            assert await store.latest_lines(10_000, entity=ref) == own
            assert await store.latest_lines(2, entity=ref) == own[:2]

    kept(story)


def test_the_newest_lines_come_in_pages(kept: Kept) -> None:
    """Read on from the last number of each page, they come once each; the unknown has none."""

    async def story(store: Store) -> None:
        lines = [line_about(A if n % 3 else B) for n in range(30)]
        await store.commit(Batch(1.0, lines=lines))
        seen: list[int] = []
        before = None
        while page := await store.latest_lines(4, before=before):
            seen += [entry.number for entry in page]
            before = page[-1].number
        assert seen == list(range(30, 0, -1))
        assert await store.latest_lines(4, entity=(Operation, "a")) == []
        assert await store.latest_lines(4, entity=(Scope, "unknown")) == []

    kept(story)


def test_an_empty_journal_has_no_newest_line(kept: Kept) -> None:
    """Neither with a number nor without."""

    async def story(store: Store) -> None:
        assert await store.latest_lines(1) == []
        assert await store.latest_lines(1, before=1) == []
        assert await store.latest_lines(1, entity=A) == []

    kept(story)


def test_an_old_event_is_found_under_thousands_of_newer_lines(kept: Kept) -> None:
    """Its own lines, all and in order, however much its scope was written about since."""

    async def story(store: Store) -> None:
        await store.commit(
            Batch(1.0, lines=[line_about(A, "e1"), line_about(B, "e0"), line_about(A, "e1")])
        )
        for start in range(0, 6000, 500):
            lines = [line_about(A, f"later-{start + n}") for n in range(500)]
            await store.commit(Batch(2.0, lines=lines))
        await store.commit(Batch(3.0, lines=[line_about(A, "e1")]))
        await restart(store)
        for entity in (None, A):
            found = await store.journal(event="e1", entity=entity)
            assert [entry.number for entry in found] == [1, 3, 6004]
        assert [entry.number for entry in await store.journal(event="later-0")] == [4]
        assert [entry.number for entry in await store.latest_lines(1)] == [6004]
        assert [e.number for e in await store.latest_lines(2, entity=B)] == [2]

    kept(story)


def test_busy_scopes_are_those_with_events(kept: Kept) -> None:
    """After every batch, a restart too: in order, in pages, none missing, none that is calm."""
    author = Author(23)

    async def story(store: Store) -> None:
        most = 0
        for turn in range(60):
            await store.commit(author.random_batch(5))
            if turn % 20 == 19:
                await restart(store)
            wanted = sorted(
                name
                for (kind, name), entity in author.entities.items()
                if kind is Scope and isinstance(entity, Scope) and entity.events
            )
            most = max(most, len(wanted))
            assert await store.scopes_with_events("", 1000) == wanted
            assert await _paged(store, 2) == wanted
        assert most > 3

    kept(story)


async def _paged(store: Store, limit: int) -> list[str]:
    found: list[str] = []
    while page := await store.scopes_with_events(found[-1] if found else "", limit):
        assert len(page) <= limit
        found += page
    return found


def test_odd_names_are_busy_in_the_order_of_all_names(kept: Kept) -> None:
    """So that one can be read on from where the other stopped."""
    names = ["a", "Z", "web/0", "web/10", "web/2", "été", "雪", "'; --", "a b", "%", "_", "🙂"]
    author = Author()

    async def story(store: Store) -> None:
        Random(3).shuffle(names)
        for number, name in enumerate(names):
            scope = CreateScope(
                scope=name, kind=ScopeKind.AVAILABILITY_SET, machines=(Machine(name="m"),)
            )
            freeze = Maintain(scope=name, operation=f"o{number}", machines=("m",))
            await store.commit(author.batch([scope, Poll(scope=name), freeze]))
        assert await store.scopes_with_events("", 100) == await store.list_ids(Scope, "", 100)
        assert await store.scopes_with_events("web/0", 2) == await store.list_ids(Scope, "web/0", 2)

    kept(story)


def test_the_machines_of_a_scope_are_found(kept: Kept) -> None:
    """As they are now, those of this scope alone, also where others have the same names."""
    author = Author(7)

    async def story(store: Store) -> None:
        for turn in range(40):
            await store.commit(author.random_batch(5))
            if turn == 20:
                await restart(store)
        every = await store.list_machines(0, 10_000)
        scopes = author.names(Scope)
        assert len(scopes) > 5
        for name in scopes:
            found = await store.find_machines(scope=name)
            assert sorted(found, key=lambda place: place.number) == [
                place for place in every if place.scope == name
            ]
            entity = author.entities[Scope, name]
            assert isinstance(entity, Scope)
            assert {one.machine.name: one.machine for one in found} == dict(entity.machines)
        assert await store.find_machines(scope="no such scope") == []

    kept(story)


def test_a_name_and_a_scope_together(kept: Kept) -> None:
    """A scope's own machine of a name that others have too; nothing given finds nothing."""
    author = Author()

    async def story(store: Store) -> None:
        for name in ("one", "two"):
            machines = (Machine(name="twin"), Machine(name=f"only-{name}"))
            scope = CreateScope(scope=name, kind=ScopeKind.AVAILABILITY_SET, machines=machines)
            await store.commit(author.batch([scope]))
        assert [place.scope for place in await store.find_machines(name="twin")] == ["one", "two"]
        assert [place.machine.name for place in await store.find_machines(scope="two")] == [
            "twin",
            "only-two",
        ]
        assert await store.find_machines() == []

    kept(story)
