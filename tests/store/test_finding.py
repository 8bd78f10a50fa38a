"""Lookups: machines by name and address, entities by kind and by due time."""

from dataclasses import replace

import pytest

from fairwarning.core.errors import Conflict
from fairwarning.core.model import (
    Impact,
    ImpactKind,
    Lane,
    Machine,
    Operation,
    Power,
    Ref,
    Scope,
    ScopeKind,
)
from fairwarning.store.store import Batch, MachineLocation, Store
from tests.store.conftest import on_open_store, restart


def scope(name: str, *machines: Machine, version: int = 1) -> Scope:
    """Return a scope of these machines."""
    return Scope(
        id=name,
        kind=ScopeKind.CLOUD_SERVICE,
        machines={machine.name: machine for machine in machines},
        version=version,
    )


def creation(*scopes: Scope) -> Batch:
    """Return a batch that creates these scopes."""
    return Batch(1.0, {(Scope, new.id): (None, new) for new in scopes})


def lane(name: str, retry_at: float | None, version: int = 1) -> Lane:
    """Return an entity that is due at a chosen time."""
    return Lane(id=name, rollout="r", number=0, steps=(), retry_at=retry_at, version=version)


@on_open_store
async def test_machines_are_found_by_name_and_address(store: Store) -> None:
    """Several scopes may have a name, one machine has an address; removed ones are not found."""
    web = Machine(name="web", address="127.1.0.1", host="h")
    other = Machine(name="web", address="127.1.0.2")
    bare = Machine(name="bare")
    first, second = scope("one", web, bare), scope("two", other)
    await store.commit(creation(second, first))
    for _ in range(2):
        assert await store.find_machines(name="web") == [
            MachineLocation(2, "one", web),
            MachineLocation(1, "two", other),
        ]
        assert await store.locate_machines(["127.1.0.3", "127.1.0.2", "", 3, "127.1.0.1"]) == {
            "127.1.0.2": MachineLocation(1, "two", other),
            "127.1.0.1": MachineLocation(2, "one", web),
            3: MachineLocation(3, "one", bare),
        }
        assert await store.find_machines(name="bare") == [MachineLocation(3, "one", bare)]
        assert await store.find_machines(name="Web") == []
        await restart(store)
    fewer = scope("one", bare, version=2)
    await store.commit(Batch(2.0, {(Scope, "one"): (first, fewer)}))
    assert await store.find_machines(name="web") == [MachineLocation(1, "two", other)]
    assert await store.locate_machines(["127.1.0.1"]) == {}


@on_open_store
async def test_the_number_of_a_machine_never_changes_and_is_never_reused(store: Store) -> None:
    """Its loopback address is derived from it (M22): after a change, a restart, or a removal."""
    a, b, c = Machine(name="a"), Machine(name="b"), Machine(name="c")
    first, second = scope("one", a, b), scope("two", c)
    await store.commit(creation(first))
    stopped = replace(a, power=Power.STOPPED)
    fewer = scope("one", stopped, version=2)
    await store.commit(Batch(2.0, {(Scope, "one"): (first, fewer)}))
    await restart(store)
    await store.commit(creation(second))
    assert await store.locate_machines([0, 1, 2]) == {1: MachineLocation(1, "one", stopped)}
    assert await store.list_machines(0, 9) == [
        MachineLocation(1, "one", stopped),
        MachineLocation(3, "two", c),
    ]
    assert await store.list_machines(0, 1) == [MachineLocation(1, "one", stopped)]
    assert await store.list_machines(1, 9) == [MachineLocation(3, "two", c)]


@on_open_store
async def test_an_address_is_unique(store: Store) -> None:
    """M22 relies on it: a duplicate is refused, whether stored or in the same batch."""
    first = scope("one", Machine(name="m", address="10.0.0.1"))
    clash = scope(
        "two", Machine(name="n", address="10.0.0.9"), Machine(name="o", address="10.0.0.1")
    )
    twice = scope(
        "six", Machine(name="n", address="10.0.0.7"), Machine(name="o", address="10.0.0.7")
    )
    await store.commit(creation(first))
    for invalid, address in ((clash, "10.0.0.1"), (twice, "10.0.0.7")):
        with pytest.raises(Conflict) as refused:
            await store.commit(creation(scope("new"), invalid))
        assert refused.value.code == "AddressTaken"
        assert address in refused.value.message
    stopped = replace(first.machines["m"], power=Power.STOPPED)
    more = scope("one", stopped, Machine(name="p", address="10.0.0.8"), version=2)
    with pytest.raises(Conflict) as refused:
        await store.commit(Batch(1.0, {(Scope, "one"): (first, more), **creation(twice).changes}))
    assert "10.0.0.7" in refused.value.message
    assert await store.list_ids(Scope, "", 9) == ["one"]
    assert await store.locate_machines(["10.0.0.9"]) == {}
    assert await store.locate_machines(["10.0.0.1"]) == {
        "10.0.0.1": MachineLocation(1, "one", first.machines["m"])
    }


@on_open_store
async def test_addresses_can_move_within_a_batch(store: Store) -> None:
    """Two machines swap addresses; a new one gets that of a removed one."""
    a, b = Machine(name="a", address="10.1"), Machine(name="b", address="10.2")
    first, second = scope("one", a), scope("two", b)
    swapped = (
        scope("one", replace(a, address="10.2"), version=2),
        scope("two", replace(b, address="10.1"), version=2),
    )
    third = scope("three", Machine(name="c", address="10.2"))
    await store.commit(creation(first, second))
    await store.commit(
        Batch(2.0, {(Scope, "one"): (first, swapped[0]), (Scope, "two"): (second, swapped[1])})
    )
    assert await store.locate_machines(["10.1"]) == {
        "10.1": MachineLocation(2, "two", swapped[1].machines["b"])
    }
    await store.commit(
        Batch(3.0, {(Scope, "three"): (None, third), (Scope, "one"): (swapped[0], None)})
    )
    assert await store.locate_machines(["10.2"]) == {
        "10.2": MachineLocation(3, "three", third.machines["c"])
    }
    assert await store.find_machines(name="a") == []


@on_open_store
async def test_the_longest_overdue_comes_first(store: Store) -> None:
    """By time, then in order of creation; each commit returns the earliest due time."""
    refs: dict[str, Ref] = {name: (Lane, name) for name in "abcd"}
    assert await store.next_due() is None
    assert await store.due_entities(1e12, 10) == []
    lanes = {"a": lane("a", 30.5), "b": lane("b", 10.25), "c": lane("c", 30.5)}
    changes = {refs[name]: (None, new) for name, new in lanes.items()}
    assert await store.commit(Batch(1.0, changes)) == 10.25
    assert await store.commit(Batch(1.0, {refs["d"]: (None, lane("d", None))})) == 10.25
    for _ in range(2):
        assert await store.due_entities(10.0, 10) == []
        assert await store.due_entities(10.25, 10) == [refs["b"]]
        assert await store.due_entities(99.0, 10) == [refs["b"], refs["a"], refs["c"]]
        assert await store.due_entities(99.0, 2) == [refs["b"], refs["a"]]
        assert await store.next_due() == 10.25
        await restart(store)
    later = Batch(2.0, {refs["b"]: (lanes["b"], lane("b", 50.0, 2))})
    assert await store.commit(later) == 30.5
    assert await store.due_entities(99.0, 10) == [refs["a"], refs["c"], refs["b"]]
    back = Batch(3.0, {refs["b"]: (lane("b", 50.0, 2), lane("b", 10.25, 3))})
    assert await store.commit(back) == 10.25
    assert await store.due_entities(99.0, 10) == [refs["b"], refs["a"], refs["c"]]
    removal = Batch(4.0, {refs[name]: (lane(name, 0, v), None) for name, v in (("a", 1), ("b", 3))})
    assert await store.commit(removal) == 30.5
    assert await store.due_entities(99.0, 10) == [refs["c"]]


@on_open_store
async def test_ids_come_in_pages(store: Store) -> None:
    """In order, by kind, from where the last page ended, despite changes in between."""
    names = ["a", "b", "Z", "é", "ab", "scope-10", "scope-9"]
    await store.commit(creation(*map(scope, names)))
    await store.commit(
        Batch(
            1.0,
            {(Operation, "a"): (None, Operation(id="a", kind="", actor="", accepted_at=0.0))},
        )
    )
    first = await store.list_ids(Scope, "", 3)
    assert first + await store.list_ids(Scope, first[-1], 100) == sorted(names)
    assert await store.list_ids(Operation, "", 9) == ["a"]
    assert await store.list_ids(Lane, "", 9) == []
    await store.commit(
        Batch(2.0, {(Scope, "b"): (scope("b"), None), (Scope, "c"): (None, scope("c"))})
    )
    remaining = sorted({*names, "c"} - {"b"})
    assert await store.list_ids(Scope, "", 100) == remaining
    await restart(store)
    assert await store.list_ids(Scope, "", 100) == remaining


@on_open_store
async def test_impacts_are_unfinished_until_settled(store: Store) -> None:
    """E9: impacts started before a crash are returned after it, in pages, until settled."""
    impacts = [
        Impact(
            id=f"e{number}:m",
            scope="s",
            machine="m",
            kind=ImpactKind.REBOOT,
            operation="o",
            event=f"e{number}",
            duration_seconds=9,
            deadline=5.5,
        )
        for number in (3, 1, 2)
    ]
    await store.commit(Batch(1.0, impacts=impacts))
    await restart(store)
    assert await store.unfinished_impacts("", 2) == [impacts[1], impacts[2]]
    assert await store.unfinished_impacts("e2:m", 2) == [impacts[0]]
    await store.commit(Batch(2.0, settled=["e2:m", "never-begun"]))
    assert await store.unfinished_impacts("", 9) == [impacts[1], impacts[0]]
    brief = replace(impacts[0], id="brief")
    await store.commit(Batch(3.0, impacts=[brief], settled=["brief", "e1:m", "e3:m"]))
    assert await store.unfinished_impacts("", 9) == []
