"""Committed entities are complete and in order; refused batches leave no trace."""

from dataclasses import replace
from typing import Any

import pytest

from fairwarning.core.cascade import JournalLine
from fairwarning.core.commands import CreateScope, CreateSet, Poll
from fairwarning.core.decision import Fact, FactType
from fairwarning.core.errors import Conflict, Unavailable
from fairwarning.core.model import (
    Entity,
    Impact,
    ImpactKind,
    Lane,
    Machine,
    Operation,
    Ref,
    Rollout,
    ScaleSet,
    Scope,
    ScopeKind,
    Subnet,
)
from fairwarning.store.store import Batch, Store
from tests.campaigns import split
from tests.store.batch_generator import BatchGenerator
from tests.store.conftest import on_open_store, restart


def pair(scope: str, *machines: str) -> CreateScope:
    """Return the creation of a scope with these machines."""
    return CreateScope(
        scope=scope,
        kind=ScopeKind.AVAILABILITY_SET,
        machines=tuple(Machine(name=name) for name in machines),
    )


async def snapshot(store: Store, refs: list[Ref]) -> Any:  # noqa: ANN401
    """Return everything that a reader can see."""
    return (
        await store.load(refs),
        await store.journal(limit=10_000),
        await store.unfinished_impacts("", 10_000),
        await store.changes_since(0, 10_000),
        await store.due_entities(1e12, 10_000),
        await store.next_due(),
        [await store.list_ids(kind, "", 10_000) for kind in (Scope, Operation, ScaleSet)],
        await store.get_note("clock"),
    )


def orders(entity: Entity) -> list[list[str]]:
    """Return the orders that equality ignores."""
    if not isinstance(entity, Scope):
        return []
    return [list(entity.machines), list(entity.events), list(entity.impacts)]


@pytest.mark.spec("E9")
@pytest.mark.parametrize("seed", split(range(4), 1))
@on_open_store
async def test_committed_entities_survive_a_restart(store: Store, seed: int) -> None:
    """Random commands, decided by the real rules: every way of reading finds what they left."""
    generator = BatchGenerator(seed)
    for options in ({}, {"before": 1}, {"entity": (Scope, "unknown")}):
        assert await store.latest_lines(1, **options) == []
    for _ in range(60):
        await store.commit(generator.random_batch(generator.random.randrange(1, 12)))
        await check_scopes_with_events(store, generator)
        if generator.random.random() < 0.1:
            await restart(store)
    await restart(store)
    await check_entities(store, generator)
    await check_machines(store, generator)
    await check_journal(store, generator)


async def check_scopes_with_events(store: Store, generator: BatchGenerator) -> None:
    """They are listed in order, and no others."""
    expected = sorted(name for name, scope in generator.scopes.items() if scope.events)
    assert await store.scopes_with_events("", 1000) == expected
    if expected:
        assert await store.scopes_with_events(expected[0], 2) == expected[1:3]


async def check_entities(store: Store, generator: BatchGenerator) -> None:
    """All are equal, orders included, and the removed ones are gone."""
    generator.removed.add((Lane, "never created"))
    loaded = await store.load([*generator.entities, *generator.removed])
    for ref, entity in generator.entities.items():
        assert loaded[ref] == entity
        assert orders(entity) == orders(loaded[ref])  # type: ignore[arg-type]
    assert all(loaded[ref] is None for ref in generator.removed - generator.entities.keys())
    impacts = await store.unfinished_impacts("", 10_000)
    assert {impact.id: impact for impact in impacts} == generator.impacts
    kinds = {Scope, ScaleSet, Operation, Rollout, Lane, Subnet}
    assert {kind for kind, _ in generator.entities} == kinds


async def check_machines(store: Store, generator: BatchGenerator) -> None:
    """Each scope has its own, even if others have the same names."""
    machines = await store.list_machines(0, 10_000)
    assert len(generator.scopes) > 5
    for name, scope in generator.scopes.items():
        locations = await store.find_machines(scope=name)
        locations.sort(key=lambda location: location.number)
        assert locations == [location for location in machines if location.scope == name]
        assert {location.machine.name: location.machine for location in locations} == scope.machines
    assert await store.find_machines(scope="no such scope") == []


async def check_journal(store: Store, generator: BatchGenerator) -> None:
    """Every line once and in order: all, those of an entity or of an event, from either end."""
    entries = await store.journal(limit=10_000)
    assert [entry.line for entry in entries] == generator.lines
    assert [entry.number for entry in entries] == list(range(1, len(entries) + 1))
    newest = entries[::-1]
    assert await store.latest_lines(10_000) == newest
    for before in (1, 2, len(entries), len(entries) + 1, 10**15):
        older = [entry for entry in newest if entry.number < before]
        assert await store.latest_lines(5, before=before) == older[:5]
    for ref in {entry.line.entity for entry in entries}:
        own = [entry for entry in entries if entry.line.entity == ref]
        assert await store.journal(limit=10_000, entity=ref) == own
        assert await store.latest_lines(2, entity=ref) == own[::-1][:2]
    events = {entry.line.fact.event for entry in entries} - {""}
    assert len(events) > 5
    for event in events:
        own = [entry for entry in entries if entry.line.fact.event == event]
        assert await store.journal(event=event) == own
        assert await store.journal(event=event, entity=own[0].line.entity) == own


@on_open_store
async def test_any_order_of_machines_is_preserved(store: Store) -> None:
    """Also one that the rules would not produce, as the store does not know them."""
    machines = {name: Machine(name=name, address=f"10.{name}") for name in "abcd"}
    first = Scope(id="s", kind=ScopeKind.CLOUD_SERVICE, machines=machines, version=1)
    shuffled = {name: machines[name] for name in "dbca"}
    second = replace(first, machines=shuffled, version=2)
    await store.commit(Batch(1.0, {(Scope, "s"): (None, first)}))
    await store.commit(Batch(1.0, {(Scope, "s"): (first, second)}))
    await restart(store)
    scope = (await store.load([(Scope, "s")]))[Scope, "s"]
    assert isinstance(scope, Scope)
    assert list(scope.machines) == list("dbca")


@on_open_store
async def test_a_stale_version_is_refused(store: Store) -> None:
    """IK1: a batch decided on an old value, on nothing, or on a removed entity has no effect."""
    generator = BatchGenerator()
    await store.commit(generator.batch([pair("a", "m"), CreateSet(set="s", capacity=1)]))
    ref, old = (Scope, "a"), generator.entities[Scope, "a"]
    await store.commit(generator.batch([Poll(scope="a")]))
    new = generator.entities[ref]
    before = await snapshot(store, [*generator.entities])
    missing = Operation(id="ghost", kind="", actor="", accepted_at=0.0, version=1)
    stale: list[dict[Ref, tuple[Entity | None, Entity | None]]] = [
        {ref: (old, replace(old, version=9))},
        {ref: (None, replace(old, version=1))},
        {ref: (old, None)},
        {(Operation, "ghost"): (missing, replace(missing, version=2))},
        {(Operation, "ghost"): (missing, None)},
        {
            (Operation, "g1"): (replace(missing, id="g1"), None),
            (Operation, "g2"): (replace(missing, id="g2"), None),
        },
        {(Scope, "new"): (None, replace(old, id="new")), ref: (old, new)},
    ]
    for changes in stale:
        line = JournalLine(1.0, "x", ref, Fact(FactType.CONFIGURED))
        impact = Impact(id="i", scope="a", machine="m", kind=ImpactKind.STOP, operation="o")
        with pytest.raises(Conflict) as refused:
            await store.commit(Batch(1.0, changes, [line], [impact], notes={"clock": "x"}))
        assert refused.value.code == "Stale"
        assert await snapshot(store, [*generator.entities]) == before
    assert "'a'" in refused.value.message
    await restart(store)
    assert await snapshot(store, [*generator.entities]) == before


@on_open_store
async def test_an_entity_can_be_removed_and_created_again(store: Store) -> None:
    """Nothing of the old one remains, in one batch or in several."""
    generator = BatchGenerator()
    ref: Ref = (Scope, "a")
    first = Scope(id="a", kind=ScopeKind.STANDALONE, machines={"m": Machine(name="m")}, version=1)
    second = replace(first, machines={"n": Machine(name="n")}, group="new")
    await store.commit(Batch(1.0, {ref: (None, first)}))
    await store.commit(Batch(2.0, {ref: (first, None)}))
    assert await store.load([ref]) == {ref: None}
    assert await store.find_machines(name="m") == []
    assert await store.list_ids(Scope, "", 10) == []
    await store.commit(Batch(3.0, {ref: (None, second)}))
    assert await store.load([ref]) == {ref: second}
    await store.commit(Batch(4.0, {ref: (second, first)}))  # removed and created in between
    await restart(store)
    assert await store.load([ref]) == {ref: first}
    assert [location.scope for location in await store.find_machines(name="m")] == ["a"]
    assert await store.find_machines(name="n") == []
    assert not generator.entities


@on_open_store
async def test_an_entity_created_and_removed_in_one_batch_leaves_only_its_lines(
    store: Store,
) -> None:
    """The journal has its lines; nothing else knows it."""
    ref: Ref = (Scope, "brief")
    lines = [
        JournalLine(1.0, "x", ref, Fact(FactType.SCOPE_CREATED)),
        JournalLine(1.0, "x", ref, Fact(FactType.ENABLED)),
    ]
    await store.commit(Batch(1.0, {ref: (None, None)}, lines))
    assert await store.load([ref]) == {ref: None}
    assert await store.list_ids(Scope, "", 10) == []
    assert [entry.line for entry in await store.journal(entity=ref)] == lines
    created = Scope(id="brief", kind=ScopeKind.STANDALONE, version=1)
    await store.commit(Batch(2.0, {ref: (None, created)}))
    assert await store.load([ref]) == {ref: created}


@on_open_store
async def test_a_closed_store_raises_an_error(store: Store) -> None:
    """It answers nothing until it is opened again, and loses nothing."""
    generator = BatchGenerator()
    batch = generator.batch([pair("a", "m")])
    await store.commit(batch)
    await store.close()
    await store.close()
    calls = [
        lambda: store.load([]),
        lambda: store.commit(batch),
        lambda: store.due_entities(1.0, 1),
        store.next_due,
        lambda: store.find_machines(name="m"),
        lambda: store.list_ids(Scope, "", 1),
        lambda: store.unfinished_impacts("", 1),
        lambda: store.changes_since(0, 1),
        store.journal,
        lambda: store.get_note("x"),
        lambda: store.list_notes("x", "", 1),
        lambda: store.save_notes({"x": ("duty", "1")}),
        lambda: store.drop_notes({"x": "1"}),
    ]
    for call in calls:
        with pytest.raises(Unavailable) as refused:
            await call()  # type: ignore[operator]
        assert refused.value.code == "StoreClosed"
    await store.open()
    await store.open()
    assert await store.load(generator.entities) == generator.entities
