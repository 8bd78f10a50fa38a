"""What is committed is there, whole and in order; what is refused leaves no trace."""

from dataclasses import replace
from typing import Any

import pytest

from fairwarning.core.cascade import JournalLine
from fairwarning.core.commands import (
    AddMachines,
    CreateScope,
    CreateSet,
    Delete,
    Poll,
    ReportImpact,
    Restart,
    StartRollout,
)
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
)
from fairwarning.store.store import Batch, Store
from tests.store.author import Author
from tests.store.conftest import Kept, restart


def pair(scope: str, *machines: str) -> CreateScope:
    """A scope with these machines, to be made."""
    return CreateScope(
        scope=scope,
        kind=ScopeKind.AVAILABILITY_SET,
        machines=tuple(Machine(name=name) for name in machines),
    )


async def snapshot(store: Store, refs: list[Ref]) -> Any:  # noqa: ANN401
    """Everything a reader can learn, for comparing."""
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
    """The orders that equality does not see."""
    if not isinstance(entity, Scope):
        return []
    return [list(entity.machines), list(entity.events), list(entity.impacts)]


@pytest.mark.spec("E9")
@pytest.mark.parametrize("seed", range(4))
def test_what_was_committed_is_there_after_a_restart(kept: Kept, seed: int) -> None:
    """Random commands, decided by the real rules: every entity comes back equal, orders too."""
    author = Author(seed)

    async def story(store: Store) -> None:
        for _ in range(60):
            await store.commit(author.random_batch(author.random.randrange(1, 12)))
            if author.random.random() < 0.1:
                await restart(store)
        await restart(store)
        loaded = await store.load([*author.entities, *author.removed])
        for ref, entity in author.entities.items():
            assert loaded[ref] == entity
            assert orders(entity) == orders(loaded[ref])  # type: ignore[arg-type]
        assert all(loaded[ref] is None for ref in author.removed - author.entities.keys())
        assert [entry.line for entry in await store.journal(limit=10_000)] == author.lines
        impacts = await store.unfinished_impacts("", 10_000)
        assert {impact.id: impact for impact in impacts} == author.impacts

    kept(story)
    assert {kind for kind, _ in author.entities} == {Scope, ScaleSet, Operation, Rollout, Lane}


def test_what_does_not_exist_is_none(kept: Kept) -> None:
    """Loading asks for what may not be there, of any kind."""

    async def story(store: Store) -> None:
        refs: list[Ref] = [(Scope, "a"), (Operation, "a"), (Lane, "")]
        assert await store.load(refs) == dict.fromkeys(refs)
        assert await store.load([]) == {}

    kept(story)


def test_machines_keep_their_order_when_some_change_and_some_go(kept: Kept) -> None:
    """A changed machine keeps its place, a new one is last, as in the scope itself."""
    author = Author()

    async def story(store: Store) -> None:
        await store.commit(author.batch([pair("a", "m1", "m2", "m3"), pair("b", "m1")]))
        await store.commit(
            author.batch(
                [Delete(scope="a", operation="o1", machines=("m1",))]
            )  # at once: it is off
        )
        impact = next(iter(author.impacts.values()))
        await store.commit(
            author.batch(
                [
                    ReportImpact(scope="a", machine="m1", impact=impact.id),
                    AddMachines(scope="a", machines=(Machine(name="m0"), Machine(name="m1"))),
                ]
            )
        )
        await restart(store)
        scope = (await store.load([(Scope, "a")]))[Scope, "a"]
        assert isinstance(scope, Scope)
        assert list(scope.machines) == ["m2", "m3", "m0", "m1"]
        assert scope == author.entities[Scope, "a"]

    kept(story)


def test_any_order_of_machines_survives(kept: Kept) -> None:
    """Also one the rules would not make: the store does not know them."""
    machines = {name: Machine(name=name, address=f"10.{name}") for name in "abcd"}
    first = Scope(id="s", kind=ScopeKind.CLOUD_SERVICE, machines=machines, version=1)
    shuffled = {name: machines[name] for name in "dbca"}
    second = replace(first, machines=shuffled, version=2)

    async def story(store: Store) -> None:
        await store.commit(Batch(1.0, {(Scope, "s"): (None, first)}))
        await store.commit(Batch(1.0, {(Scope, "s"): (first, second)}))
        await restart(store)
        scope = (await store.load([(Scope, "s")]))[Scope, "s"]
        assert isinstance(scope, Scope)
        assert list(scope.machines) == list("dbca")

    kept(story)


def test_a_stale_version_is_refused(kept: Kept) -> None:
    """IK1: whoever decided on an old value, or on nothing, or on what is gone, changes nothing."""
    author = Author()

    async def story(store: Store) -> None:
        await store.commit(author.batch([pair("a", "m"), CreateSet(set="s", capacity=1)]))
        ref, old = (Scope, "a"), author.entities[Scope, "a"]
        await store.commit(author.batch([Poll(scope="a")]))
        new = author.entities[ref]
        before = await snapshot(store, [*author.entities])
        ghost = Operation(id="ghost", kind="", actor="", accepted_at=0.0, version=1)
        wrong: list[dict[Ref, tuple[Entity | None, Entity | None]]] = [
            {ref: (old, replace(old, version=9))},
            {ref: (None, replace(old, version=1))},
            {ref: (old, None)},
            {(Operation, "ghost"): (ghost, replace(ghost, version=2))},
            {(Operation, "ghost"): (ghost, None)},
            {
                (Operation, "g1"): (replace(ghost, id="g1"), None),
                (Operation, "g2"): (replace(ghost, id="g2"), None),
            },
            {(Scope, "new"): (None, replace(old, id="new")), ref: (old, new)},
        ]
        for changes in wrong:
            line = JournalLine(1.0, "x", ref, Fact(FactType.CONFIGURED))
            impact = Impact(id="i", scope="a", machine="m", kind=ImpactKind.STOP, operation="o")
            with pytest.raises(Conflict) as refused:
                await store.commit(Batch(1.0, changes, [line], [impact], notes={"clock": "x"}))
            assert refused.value.code == "Stale"
            assert await snapshot(store, [*author.entities]) == before
        assert "'a'" in refused.value.message
        await restart(store)
        assert await snapshot(store, [*author.entities]) == before

    kept(story)


def test_an_entity_can_be_removed_and_made_again(kept: Kept) -> None:
    """Nothing of the old one is left, whether that happens in one batch or in several."""
    author = Author()
    ref: Ref = (Scope, "a")
    one = Scope(id="a", kind=ScopeKind.STANDALONE, machines={"m": Machine(name="m")}, version=1)
    two = replace(one, machines={"n": Machine(name="n")}, group="new")

    async def story(store: Store) -> None:
        await store.commit(Batch(1.0, {ref: (None, one)}))
        await store.commit(Batch(2.0, {ref: (one, None)}))
        assert await store.load([ref]) == {ref: None}
        assert await store.find_machines(name="m") == []
        assert await store.list_ids(Scope, "", 10) == []
        await store.commit(Batch(3.0, {ref: (None, two)}))
        assert await store.load([ref]) == {ref: two}
        await store.commit(Batch(4.0, {ref: (two, one)}))  # gone and made anew between two commits
        await restart(store)
        assert await store.load([ref]) == {ref: one}
        assert [place.scope for place in await store.find_machines(name="m")] == ["a"]
        assert await store.find_machines(name="n") == []

    kept(story)
    assert not author.entities


def test_what_came_and_went_in_one_batch_leaves_only_its_lines(kept: Kept) -> None:
    """The journal tells of it, and can be asked for it; nothing else knows it."""
    ref: Ref = (Scope, "brief")
    lines = [
        JournalLine(1.0, "x", ref, Fact(FactType.SCOPE_CREATED)),
        JournalLine(1.0, "x", ref, Fact(FactType.ENABLED)),
    ]

    async def story(store: Store) -> None:
        await store.commit(Batch(1.0, {ref: (None, None)}, lines))
        assert await store.load([ref]) == {ref: None}
        assert await store.list_ids(Scope, "", 10) == []
        assert [entry.line for entry in await store.journal(entity=ref)] == lines
        made = Scope(id="brief", kind=ScopeKind.STANDALONE, version=1)
        await store.commit(Batch(2.0, {ref: (None, made)}))
        assert await store.load([ref]) == {ref: made}

    kept(story)


def test_a_rollout_over_many_scopes_is_one_batch(kept: Kept) -> None:
    """A batch may hold hundreds of entities and lines; all of them are kept, in order."""
    author = Author()
    names = [f"s{i:03}" for i in range(150)]

    async def story(store: Store) -> None:
        await store.commit(author.batch([pair(name, f"{name}_0", f"{name}_1") for name in names]))
        await store.commit(author.batch([Poll(scope=name) for name in names]))
        await store.commit(
            author.batch([StartRollout(rollout="r", scopes=tuple(names), batch=100)])
        )
        await restart(store)
        assert await store.load(author.entities) == author.entities
        entries = await store.journal(limit=10_000)
        assert [entry.line for entry in entries] == author.lines
        assert [entry.number for entry in entries] == list(range(1, len(author.lines) + 1))

    kept(story)
    assert len(author.names(Lane)) == 150


def test_a_large_scope_survives_any_of_its_machines_changing(kept: Kept) -> None:
    """The rows of machines that did not change are not touched, and stay right."""
    author = Author()
    names = [f"m{i:03}" for i in range(100)]

    async def story(store: Store) -> None:
        await store.commit(author.batch([pair("big", *names), Poll(scope="big")]))
        for number, name in enumerate(names[::7]):
            restarted = Restart(scope="big", operation=f"o{number}", machines=(name,))
            await store.commit(author.batch([restarted]))
        await restart(store)
        assert await store.load(author.entities) == author.entities

    kept(story)


def test_a_closed_store_says_so(kept: Kept) -> None:
    """Nothing is answered from a store that is not open, and nothing is lost by closing it."""
    author = Author()
    batch = author.batch([pair("a", "m")])

    async def story(store: Store) -> None:
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
        ]
        for call in calls:
            with pytest.raises(Unavailable) as refused:
                await call()  # type: ignore[operator]
            assert refused.value.code == "StoreClosed"
        await store.open()
        await store.open()
        assert await store.load(author.entities) == author.entities

    kept(story)
