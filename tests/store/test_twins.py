"""The memory store is the SQLite store's twin: what the simulator learns on one holds on the other.

So they answer alike, down to the order of what is equal and the numbers they give.
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
from tests.store.author import Author
from tests.store.conftest import restart


async def answers(store: Store, author: Author) -> list[Any]:
    """What a store says to questions that chance chooses."""
    chance = author.random
    refs: list[Ref] = [*author.entities, *author.removed, (Scope, "nobody")]
    ref, now, limit = chance.choice(refs), author.now, chance.randrange(1, 20)
    line = chance.choice(author.lines)
    return [
        await store.load(chance.sample(refs, min(len(refs), 5))),
        await store.due_entities(now + chance.choice((-100.0, 0.0, 1000.0, 1e6)), limit),
        await store.next_due(),
        await store.find_machines(name=line.fact.machine or "nobody"),
        await store.find_machines(address=f"10.0.0.m-{chance.randrange(1, 60)}"),
        await store.find_machines(number=chance.randrange(1, 60)),
        await store.list_machines(chance.randrange(60), limit),
        [await store.list_ids(kind, ref[1], limit) for kind in (Scope, ScaleSet, Operation)],
        [await store.list_ids(kind, "", limit) for kind in (Rollout, Lane)],
        await store.unfinished_impacts(chance.choice(("", *author.impacts)), limit),
        await store.changes_since(chance.randrange(len(author.lines)), limit),
        await store.journal(after=chance.randrange(len(author.lines)), limit=limit),
        await store.journal(entity=line.entity, limit=limit, after=chance.randrange(99)),
        await store.journal(event=line.fact.event, limit=limit),
        await store.get_note("clock"),
    ]


async def outcome(store: Store, batch: Batch) -> object:
    """What a commit answers, or which conflict it meets."""
    try:
        return await store.commit(batch)
    except Conflict as conflict:
        return conflict.code, conflict.message


@pytest.mark.parametrize("seed", range(6))
def test_both_answer_alike(seed: int, tmp_path: Path) -> None:
    """Random batches, some of them spoilt, restarts now and then: every answer is the same."""
    author = Author(seed)
    sqlite = SQLiteStore(tmp_path / "fleet.db", reserved_bytes=4096)
    stores: list[Store] = [MemoryStore(), sqlite]

    async def story() -> None:
        for store in stores:
            await store.open()
        for _ in range(80):
            batch = author.random_batch(author.random.randrange(1, 9))
            spoilt = Batch(batch.at, {**batch.changes, **_stale(author)}, batch.lines)
            for one in (spoilt, batch) if author.random.random() < 0.2 else (batch,):
                first, second = [await outcome(store, one) for store in stores]
                assert first == second
            state = author.random.getstate()
            said = []
            for store in stores:
                author.random.setstate(state)  # the same questions
                said.append(await answers(store, author))
            assert said[0] == said[1]
            if author.random.random() < 0.05:
                for store in stores:
                    await restart(store)
        for store in stores:
            await store.close()

    asyncio.run(story())


def _stale(author: Author) -> dict[Ref, Any]:
    """A change of something that is not as it is thought to be."""
    ref: Ref = (Operation, "never-made")
    before = Operation(id=ref[1], kind="", actor="", accepted_at=author.now, version=7)
    return {ref: (before, None)}
