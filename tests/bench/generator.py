"""Generates a million machines in a minute: the core decides each scope, the store commits many."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fairwarning.core import cascade
from fairwarning.core.commands import CreateScope
from fairwarning.core.model import Entity, Ref, Scope
from fairwarning.server.options import store_at
from fairwarning.server.variables import is_database
from fairwarning.service.config.settings import ClusterSettings
from fairwarning.service.writer.batch import CommandBatch, size_of
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Store
from tests.bench import fleets

_AT_ONCE = 5000  # machines per transaction


async def generate(
    store: Store, machines: int, of_scope: int, report: Callable[[int], None] = lambda _: None
) -> None:
    """Create availability sets in an empty store; report the progress."""
    nothing: dict[Ref, Entity | None] = {}
    await store.open()
    try:
        if there := await store.list_ids(Scope, "", 1):
            raise ValueError(f"it already has a fleet (with a scope {there[0]!r})")
        for part in _parts(machines, of_scope):
            now, work = time.time(), CommandBatch()
            for command in part:
                outcome = cascade.run(command, now, nothing.get)
                work.add(outcome, size_of(outcome))
            await store.commit(work.batch(now, {}))
            report(sum(len(command.machines) for command in part))
    finally:
        await store.close()


def _parts(machines: int, of_scope: int) -> Iterator[list[CreateScope]]:
    """The commands of each transaction."""
    befores = range(0, machines, of_scope)
    names = fleets.scope_names(len(befores))
    at_once = max(_AT_ONCE // of_scope, 1)
    for first in range(0, len(befores), at_once):
        here = slice(first, first + at_once)
        yield [
            fleets.create(before, name, min(of_scope, machines - before))
            for before, name in zip(befores[here], names[here], strict=True)
        ]


def store_of(data: str) -> Store:
    """The store that `--data` of `fairwarning up` names."""
    if is_database(data):
        return store_at(data, ClusterSettings())
    return SQLiteStore(Path(data) / "fleet.db")
