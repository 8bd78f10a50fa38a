"""Retention: each store finds what has ended, and forgets what was removed."""

from collections.abc import Awaitable, Callable

from fairwarning.core.model import (
    Entity,
    ImpactKind,
    Operation,
    OperationStatus,
    Ref,
    Rollout,
    Scope,
    ScopeKind,
)
from fairwarning.store.store import Batch, Store
from tests.store.batch_generator import line_about
from tests.store.conftest import on_open_store, restart


def operation(name: str, ended_at: float | None, version: int = 1) -> Operation:
    """Return an operation; its actor looks like the end of another one."""
    status = OperationStatus.RUNNING if ended_at is None else OperationStatus.SUCCEEDED
    return Operation(
        id=name,
        kind="Restart",
        actor='"ended_at":1.0',
        accepted_at=1.0,
        status=status,
        ended_at=ended_at,
        version=version,
    )


def rollout(name: str, ended_at: float | None) -> Rollout:
    """Return a rollout."""
    return Rollout(
        id=name,
        kind=ImpactKind.REBOOT,
        actor="operator",
        started_at=1.0,
        batch=1,
        lanes=1,
        machines=1,
        ended_at=ended_at,
        version=1,
    )


def scope(name: str) -> Scope:
    """Return a scope."""
    return Scope(id=name, kind=ScopeKind.STANDALONE, version=1)


async def create(store: Store, *entities: Entity) -> None:
    """Create entities in one batch."""
    await store.commit(
        Batch(1.0, {(type(entity), entity.id): (None, entity) for entity in entities})
    )


async def remove(store: Store, *entities: Entity) -> None:
    """Remove entities in one batch."""
    await store.commit(
        Batch(1.0, {(type(entity), entity.id): (entity, None) for entity in entities})
    )


async def changed_scopes(store: Store) -> list[str]:
    """Return the scopes of the change feed."""
    return [change.scope for change in await store.changes_since(0, 99)]


async def drop_all(drop: Callable[[], Awaitable[int]]) -> int:
    """Drop until nothing is left to drop; return how many."""
    total = 0
    while dropped := await drop():
        total += dropped
    return total


@on_open_store
async def test_ended_entities_are_found_in_order(store: Store) -> None:
    """By the time of their end; operations before rollouts; nothing that is in progress."""
    await create(
        store, rollout("r", 5.0), operation("late", 1767960000.25), operation("b", 5.0),
        operation("a", 5.0), operation("first", 2.5), operation("running", None),
        rollout("going", None), scope("s"),
    )  # fmt: skip
    await restart(store)
    assert await store.ended_entities(2.5, 9) == []
    early: list[Ref] = [(Operation, "first"), (Operation, "a"), (Operation, "b")]
    assert await store.ended_entities(6.0, 3) == early
    assert await store.ended_entities(6.0, 9) == [*early, (Rollout, "r")]
    assert (await store.ended_entities(2e9, 9))[4:] == [(Operation, "late")]


@on_open_store
async def test_an_operation_is_found_at_its_present_end(store: Store) -> None:
    """Once it has ended; not after it was removed; again after one of its id was created."""
    ref: Ref = (Operation, "o")
    running, ended = operation("o", None), operation("o", 4.0, version=2)
    await create(store, running)
    await store.commit(Batch(4.0, {ref: (running, ended)}))
    assert await store.ended_entities(9.0, 9) == [ref]
    await remove(store, ended)
    assert await store.ended_entities(9.0, 9) == []
    await create(store, operation("o", 8.0))
    assert await store.ended_entities(8.0, 9) == []
    assert await store.ended_entities(9.0, 9) == [ref]


@on_open_store
async def test_removals_are_forgotten_up_to_a_position(store: Store) -> None:
    """Existing entities stay, also those created again; others of the name can be created."""
    await create(store, *map(scope, "abc"), operation("o", 1.0))
    await remove(store, scope("a"), operation("o", 1.0))
    await remove(store, scope("b"))
    await create(store, scope("b"))
    seen = await store.position()
    await remove(store, scope("c"))
    assert await changed_scopes(store) == ["a", "b", "c"]
    assert await drop_all(lambda: store.drop_tombstones(seen)) == 2
    assert await changed_scopes(store) == ["b", "c"]
    position = await store.position()
    await restart(store)
    assert await store.position() == position
    assert await store.load([(Scope, "a"), (Scope, "b")]) == {
        (Scope, "a"): None,
        (Scope, "b"): scope("b"),
    }
    await create(store, scope("a"), operation("o", 1.0))
    assert await drop_all(lambda: store.drop_tombstones(position)) == 1
    assert await changed_scopes(store) == ["b", "a"]


@on_open_store
async def test_the_lines_of_a_removed_entity_stay_reachable(store: Store) -> None:
    """Until they are dropped themselves; then nothing of the entity is left."""
    await create(store, scope("a"))
    ref: Ref = (Scope, "a")
    await store.commit(Batch(2.0, {ref: (scope("a"), None)}, [line_about(ref, at=2.0)]))
    position = await store.position()
    dropped = await drop_all(lambda: store.drop_tombstones(position))
    assert [entry.line for entry in await store.latest_lines(9, entity=ref)] == [
        line_about(ref, at=2.0)
    ]
    await store.drop_old_lines(3.0)
    dropped += await drop_all(lambda: store.drop_tombstones(position))
    assert dropped == 1
    assert await changed_scopes(store) == []


@on_open_store
async def test_many_removals_are_forgotten_in_several_calls(store: Store) -> None:
    """Each call is short, so that commits do not wait for it."""
    scopes = [scope(f"s{n:04}") for n in range(1200)]
    await create(store, *scopes)
    await remove(store, *scopes)
    position = await store.position()
    assert await drop_all(lambda: store.drop_tombstones(position)) == 1200
    assert await store.changes_since(0, 9) == []
