"""The newest lines of the journal, scopes with events, and the machines of a scope."""

from random import Random

from fairwarning.core.commands import CreateScope, Maintain, Poll
from fairwarning.core.model import Machine, Ref, Scope, ScopeKind
from fairwarning.store.store import Batch, Store
from tests.store.batch_generator import BatchGenerator, line_about
from tests.store.conftest import on_open_store, restart

A: Ref = (Scope, "a")
B: Ref = (Scope, "b")


@on_open_store
async def test_the_newest_lines_are_the_journal_in_reverse(store: Store) -> None:
    """All lines and those of an entity, over batches and restarts, before any number."""
    for options in ({}, {"before": 1}, {"entity": A}):
        assert await store.latest_lines(1, **options) == []
    generator = BatchGenerator(11)
    for _ in range(40):
        await store.commit(generator.random_batch(6))
    await restart(store)
    await store.commit(generator.random_batch(6))
    everything = (await store.journal(limit=10_000))[::-1]
    assert await store.latest_lines(10_000) == everything
    assert await store.latest_lines(7) == everything[:7]
    for before in (1, 2, everything[0].number, everything[0].number + 1, 10**15):
        older = [entry for entry in everything if entry.number < before]
        assert await store.latest_lines(5, before=before) == older[:5]
    for ref in {entry.line.entity for entry in everything}:
        own = [entry for entry in everything if entry.line.entity == ref]
        assert await store.latest_lines(10_000, entity=ref) == own
        assert await store.latest_lines(2, entity=ref) == own[:2]
    assert await store.latest_lines(4, entity=(Scope, "unknown")) == []


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
async def test_scopes_with_events_are_listed(store: Store) -> None:
    """After every batch and restart: in order, in pages, complete, and no others."""
    generator = BatchGenerator(23)
    most = 0
    for turn in range(60):
        await store.commit(generator.random_batch(5))
        if turn % 20 == 19:
            await restart(store)
        expected = sorted(
            name
            for (kind, name), entity in generator.entities.items()
            if kind is Scope and isinstance(entity, Scope) and entity.events
        )
        most = max(most, len(expected))
        assert await store.scopes_with_events("", 1000) == expected
        assert await _paged(store, 2) == expected
    assert most > 3


async def _paged(store: Store, limit: int) -> list[str]:
    names: list[str] = []
    while page := await store.scopes_with_events(names[-1] if names else "", limit):
        assert len(page) <= limit
        names += page
    return names


@on_open_store
async def test_scopes_with_events_come_in_the_order_of_ids(store: Store) -> None:
    """Also with unusual names, so that a reader of one list can continue in the other."""
    names = ["a", "Z", "web/0", "web/10", "web/2", "été", "雪", "'; --", "a b", "%", "_", "🙂"]
    generator = BatchGenerator()
    Random(3).shuffle(names)
    for number, name in enumerate(names):
        scope = CreateScope(
            scope=name, kind=ScopeKind.AVAILABILITY_SET, machines=(Machine(name="m"),)
        )
        freeze = Maintain(scope=name, operation=f"o{number}", machines=("m",))
        await store.commit(generator.batch([scope, Poll(scope=name), freeze]))
    assert await store.scopes_with_events("", 100) == await store.list_ids(Scope, "", 100)
    assert await store.scopes_with_events("web/0", 2) == await store.list_ids(Scope, "web/0", 2)


@on_open_store
async def test_the_machines_of_a_scope_are_found(store: Store) -> None:
    """Their current state, and only those of this scope, even if others have the same names."""
    generator = BatchGenerator(7)
    for turn in range(40):
        await store.commit(generator.random_batch(5))
        if turn == 20:
            await restart(store)
    machines = await store.list_machines(0, 10_000)
    scopes = generator.names(Scope)
    assert len(scopes) > 5
    for name in scopes:
        locations = await store.find_machines(scope=name)
        assert sorted(locations, key=lambda location: location.number) == [
            location for location in machines if location.scope == name
        ]
        entity = generator.entities[Scope, name]
        assert isinstance(entity, Scope)
        by_name = {location.machine.name: location.machine for location in locations}
        assert by_name == dict(entity.machines)
    assert await store.find_machines(scope="no such scope") == []
