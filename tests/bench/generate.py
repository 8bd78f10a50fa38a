"""Generate a fleet for experiments: `python -m tests.bench.generate --machines N --data PATH|URL`.

Then `fairwarning up --data PATH|URL` serves it. A million machines take less than a minute: the
core decides each scope, and the store commits many at once.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from fairwarning.core import cascade
from fairwarning.core.commands import CreateScope
from fairwarning.core.errors import FairwarningError
from fairwarning.core.model import Entity, Ref, Scope
from fairwarning.server.options import store_at
from fairwarning.server.variables import is_database
from fairwarning.service.config.settings import ClusterSettings
from fairwarning.service.writer.batch import CommandBatch, size_of
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Store
from tests.bench import fleets

_AT_ONCE = 5000  # machines per transaction
_SCOPE_MAX = 100  # machines per scope, the limit of a placement group


async def build(data: str, machines: int, of_scope: int) -> bool:
    """Create availability sets in an empty folder or database."""
    nothing: dict[Ref, Entity | None] = {}
    store = store_of(data)
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
    finally:
        await store.close()
    return True


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


def main(argv: Sequence[str] | None = None) -> int:
    """Generate a fleet; return 1 if that is not possible."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.generate", description=__doc__)
    parser.add_argument("--machines", type=int, required=True, metavar="N")
    where = "a folder, or a postgresql:// database"
    parser.add_argument("--data", required=True, metavar="PATH|URL", help=where)
    options = parser.parse_args(argv)
    if options.machines < 1:
        parser.error("--machines must be at least 1")
    with fleets.runner() as loop:
        try:
            loop.run(build(options.data, options.machines, _SCOPE_MAX))
        except (FairwarningError, ValueError) as error:
            print(
                f"Error: {options.data}: {error}; use another folder or database", file=sys.stderr
            )
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
