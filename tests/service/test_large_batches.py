"""Large batches are split into several transactions; each command stays whole."""

import asyncio
from collections.abc import Iterable

import pytest

from fairwarning.core.commands import Command, CreateSet
from fairwarning.core.errors import Unavailable
from fairwarning.core.model import Operation, Scope
from fairwarning.service.writer import committer
from fairwarning.store.memory import MemoryStore
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.store import Batch, Store
from tests.bench.fleets import Never, serving
from tests.fixtures.postgres.database import migrated_database_or_skip
from tests.fixtures.postgres.server import shared

INSTANCES = 100  # of a set, in a store that takes a tenth of the usual rows
MANY_INSTANCES = 1000


class SlowStore(MemoryStore):
    """A store that cancels commits with more than some number of machines."""

    def __init__(self, machines: int) -> None:
        super().__init__()
        self.most_machines = machines
        self.cancelled = 0

    async def commit(self, batch: Batch) -> float | None:
        scopes = [after for _, after in batch.changes.values() if isinstance(after, Scope)]
        if sum(len(scope.machines) for scope in scopes) > self.most_machines:
            self.cancelled += 1
            raise Unavailable("StoreSlow", "the database took too long; try again")
        return await super().commit(batch)


@pytest.fixture
def _few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(committer, "_ROWS", committer._ROWS // 10)
    monkeypatch.setattr(committer, "_FEW_ROWS", committer._FEW_ROWS // 10)


def create_sets(count: int, capacity: int = INSTANCES) -> list[Command]:
    """Return commands that create scale sets."""
    return [CreateSet(set=f"set{number:03}", capacity=capacity) for number in range(count)]


async def submit_at_once(
    store: Store, commands: Iterable[Command]
) -> tuple[list[Operation | BaseException | None], list[str], int]:
    """Submit all commands; return results, the sets in order of their machines, and commits."""
    async with serving(store, Never()) as fleet:
        submitted = [fleet.submit(command) for command in commands]
        results = await asyncio.gather(*submitted, return_exceptions=True)
        sets: dict[str, None] = {}
        last = 0
        while machines := await store.list_machines(last, 10_000):
            sets.update((location.scope.partition("/")[0], None) for location in machines)
            last = machines[-1].number
        return results, list(sets), fleet._committer.commits


def check(results: list[Operation | BaseException | None], sets: list[str], count: int) -> None:
    """All commands succeeded, in the order in which they were submitted."""
    assert [result for result in results if isinstance(result, BaseException)] == []
    assert sets == [f"set{number:03}" for number in range(count)]


@pytest.mark.usefixtures("_few_rows")
def test_a_batch_has_a_limited_number_of_rows() -> None:
    """Twenty sets do not fit into one transaction with their machines and journal lines."""
    results, sets, commits = asyncio.run(submit_at_once(MemoryStore(), create_sets(20)))
    check(results, sets, 20)
    assert 3 <= commits <= 20


@pytest.mark.usefixtures("_few_rows")
def test_a_batch_that_the_database_cancels_is_halved() -> None:
    """Until it succeeds; the next batches begin with fewer commands."""
    store = SlowStore(machines=INSTANCES)
    results, sets, commits = asyncio.run(submit_at_once(store, create_sets(20)))
    check(results, sets, 20)
    assert commits == 20
    assert 0 < store.cancelled < 20


@pytest.mark.usefixtures("_few_rows")
def test_a_command_that_is_too_slow_alone_fails_alone() -> None:
    """The commands beside it succeed."""
    small = [CreateSet(set=f"small{number}", capacity=1) for number in range(3)]
    commands = [small[0], *create_sets(1), *small[1:]]
    results, sets, _ = asyncio.run(submit_at_once(SlowStore(machines=INSTANCES - 1), commands))
    assert [isinstance(result, Unavailable) for result in results] == [False, True, False, False]
    assert sets == ["small0", "small1", "small2"]


@pytest.mark.spec("X1")
@pytest.mark.campaign
def test_two_hundred_large_sets_are_created_at_once() -> None:
    """200,000 machines, in order, on PostgreSQL."""
    url = migrated_database_or_skip()
    commands = create_sets(200, MANY_INSTANCES)
    results, sets, _ = asyncio.run(submit_at_once(PostgresStore(url), commands))
    check(results, sets, 200)
    shared().drop(url)
