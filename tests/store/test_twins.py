"""The memory store behaves like the SQLite store, so results of the simulator hold for both.

They give the same answers, including the order of equal items and the assigned numbers.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fairwarning.core.errors import Conflict
from fairwarning.core.model import Lane, Operation, Ref, Rollout, ScaleSet, Scope
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch, Store
from tests.store.batch_generator import BatchGenerator
from tests.store.conftest import restart


async def answers(store: Store, generator: BatchGenerator) -> list[Any]:
    """Return a store's answers to random questions."""
    random = generator.random
    refs: list[Ref] = [*generator.entities, *generator.removed, (Scope, "unknown")]
    ref, now, limit = random.choice(refs), generator.now, random.randrange(1, 20)
    line = random.choice(generator.lines)
    return [
        await store.load(random.sample(refs, min(len(refs), 5))),
        await store.due_entities(now + random.choice((-100.0, 0.0, 1000.0, 1e6)), limit),
        await store.next_due(),
        await store.find_machines(name=next(iter(line.fact.machines), "unknown")),
        await store.locate_machines(
            [f"10.0.0.m-{random.randrange(1, 60)}", *random.sample(range(60), 3)]
        ),
        await store.list_machines(random.randrange(60), limit),
        [await store.list_ids(kind, ref[1], limit) for kind in (Scope, ScaleSet, Operation)],
        [await store.list_ids(kind, "", limit) for kind in (Rollout, Lane)],
        await store.unfinished_impacts(random.choice(("", *generator.impacts)), limit),
        await store.changes_since(random.randrange(len(generator.lines)), limit),
        await store.journal(after=random.randrange(len(generator.lines)), limit=limit),
        await store.journal(entity=line.entity, limit=limit, after=random.randrange(99)),
        await store.journal(event=line.fact.event, limit=limit),
        await store.get_note("clock"),
        await store.list_notes("c", "", 1000),
        await store.position(),
        await store.ended_entities(now - random.choice((-1.0, 0.0, 500.0)), limit),
    ]


async def outcome(store: Store, batch: Batch) -> object:
    """Return the result of a commit, or its conflict."""
    try:
        return await store.commit(batch)
    except Conflict as conflict:
        return conflict.code, conflict.message


@pytest.mark.parametrize("seed", range(6))
def test_both_give_the_same_answers(seed: int, tmp_path: Path) -> None:
    """After random batches, some of them stale, drops and restarts, every answer is the same."""
    generator = BatchGenerator(seed)
    sqlite = SQLiteStore(tmp_path / "fleet.db", reserved_bytes=4096)
    stores: list[Store] = [MemoryStore(), sqlite]

    async def run() -> None:
        for store in stores:
            await store.open()
        for _ in range(80):
            batch = generator.random_batch(generator.random.randrange(1, 9))
            stale = Batch(batch.at, {**batch.changes, **_stale(generator)}, batch.lines)
            for tried in (stale, batch) if generator.random.random() < 0.2 else (batch,):
                first, second = [await outcome(store, tried) for store in stores]
                assert first == second
            if generator.random.random() < 0.1:
                first, second = [
                    await store.drop_old_lines(generator.now - 900) for store in stores
                ]
                assert first == second
            state = generator.random.getstate()
            both = []
            for store in stores:
                generator.random.setstate(state)  # the same questions
                both.append(await answers(store, generator))
            assert both[0] == both[1]
            if generator.random.random() < 0.05:
                for store in stores:
                    await restart(store)
        for store in stores:
            await store.close()

    asyncio.run(run())


def _stale(generator: BatchGenerator) -> dict[Ref, Any]:
    """Return a change whose expected version is wrong."""
    ref: Ref = (Operation, "never-made")
    before = Operation(id=ref[1], kind="", actor="", accepted_at=generator.now, version=7)
    return {ref: (before, None)}
