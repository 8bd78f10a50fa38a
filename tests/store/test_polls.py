"""The recorded polls, which are apart from the entities."""

import pytest

from fairwarning.core.model import Machine, Ref, Scope, ScopeKind
from fairwarning.store.store import Batch, Store
from tests.store.conftest import on_open_store, restart

pytestmark = pytest.mark.spec("X5")


@on_open_store
async def test_polls_are_recorded_and_survive_a_restart(store: Store) -> None:
    """Many scopes at once; the latest time of each counts, in whatever order they come."""
    await store.record_polls({})
    await store.record_polls({f"vm-{n}": 100.0 + n for n in range(100)})
    await store.record_polls({"vm-1": 500.5, "vm-2": 50.0, "other": 7.0})
    await restart(store)
    names = ["vm-1", "vm-2", "vm-99", "other", "unknown"]
    expected = {"vm-1": 500.5, "vm-2": 102.0, "vm-99": 199.0, "other": 7.0}
    assert await store.recorded_polls(names) == expected
    assert await store.recorded_polls([]) == {}


@on_open_store
async def test_recording_changes_nothing_else(store: Store) -> None:
    """No entity, no line of the journal, no position of the change feed."""
    scope = Scope(
        id="vm", kind=ScopeKind.STANDALONE, machines={"vm": Machine(name="vm")}, version=1
    )
    await store.commit(Batch(1.0, changes={(Scope, "vm"): (None, scope)}))
    before = await store.position()
    await store.record_polls({"vm": 9.0})
    assert await store.position() == before
    assert await store.changes_since(before, 10) == []
    assert await store.journal() == []
    assert await store.load([(Scope, "vm")]) == {(Scope, "vm"): scope}


@on_open_store
async def test_the_polls_of_a_removed_scope_are_dropped(store: Store) -> None:
    """Together with what is left of the scope itself; the polls of others stay."""
    vm = Scope(id="vm", kind=ScopeKind.STANDALONE, version=1)
    other = Scope(id="other", kind=ScopeKind.STANDALONE, version=1)
    both: dict[Ref, tuple[None, Scope]] = {
        (Scope, "vm"): (None, vm),
        (Scope, "other"): (None, other),
    }
    await store.commit(Batch(1.0, changes=both))
    await store.record_polls({"vm": 9.0, "other": 9.0})
    await store.commit(Batch(2.0, changes={(Scope, "vm"): (vm, None)}))
    assert await store.drop_tombstones(await store.position()) == 1
    assert await store.recorded_polls(["vm", "other"]) == {"other": 9.0}
