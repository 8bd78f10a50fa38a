"""Saved fleets: dumps of data folders and databases, and what they contained.

`python -m tests.release.upgrades.saved 1.1` saves a fleet of the present version below data/1.1.
Do that once for each minor version, when it is released, and never change what was saved.
"""

import argparse
import asyncio
import gzip
import json
import re
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from fairwarning.core.commands import Restart, StartRollout
from fairwarning.core.model import ImpactKind
from fairwarning.store import codec
from fairwarning.store.memory import MemoryStore
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch, Store
from tests.arm.everything import Everything, fill
from tests.fixtures.fleet import all_entities, standalone
from tests.fixtures.postgres import programs
from tests.fixtures.postgres.server import Server

Json = Any
_PAGE = 1000


@dataclass(slots=True)
class Steps:
    """Everything that was written to a store, in order, to be written to another one."""

    steps: list[Batch | Mapping[str, float]] = field(default_factory=list)
    notes: dict[str, str] = field(default_factory=dict)

    async def write(self, store: Store) -> None:
        """Write the same to another store."""
        for name, value in self.notes.items():
            await store.add_note_if_absent(name, value)
        for step in self.steps:
            if isinstance(step, Batch):
                await store.commit(step)
            else:
                await store.record_polls(step)


class RecordingStore(MemoryStore):
    """The memory store, which remembers what was written."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = Steps()

    async def commit(self, batch: Batch) -> float | None:
        self.steps.steps.append(batch)
        return await super().commit(batch)

    async def record_polls(self, polls: Mapping[str, float]) -> None:
        self.steps.steps.append(polls)
        await super().record_polls(polls)

    async def add_note_if_absent(self, name: str, value: str) -> str:
        self.steps.notes[name] = value
        return await super().add_note_if_absent(name, value)


def create() -> RecordingStore:
    """Let a fleet live for some hours, and stop it in the middle of its work."""
    store = RecordingStore()
    with Everything(store=store) as arm:
        fill(arm)
        for name in ("polled", "restarted", "approved", "maintained"):
            arm.do(standalone(name))
            arm.poll(name)
        for hours in range(3):
            arm.advance(3600)
            arm.poll("polled")
            arm.do(Restart(scope="approved", operation=f"early-{hours}", machines=("approved",)))
            arm.approve("approved", "approved")
        arm.advance(600)
        arm.do(Restart(scope="restarted", operation="late", machines=("restarted",)))
        arm.do(Restart(scope="approved", operation="last", machines=("approved",)))
        arm.approve("approved", "approved")
        scopes = ("maintained", "polled")
        arm.do(StartRollout(rollout="hosts", scopes=scopes, kind=ImpactKind.REBOOT))
    return store


async def facts(store: Store) -> Json:
    """What a store says about its fleet: entities, machines, journal, polls and times."""
    entities = await all_entities(store)
    machines = await store.list_machines(0, _PAGE)
    scopes = await store.recorded_polls(sorted({place.scope for place in machines}))
    return {
        "entities": {
            f"{kind.__name__} {name}": json.loads(codec.encode(entity))
            for (kind, name), entity in sorted(entities.items(), key=lambda item: str(item[0]))
            if entity is not None
        },
        "machines": [
            [place.number, place.scope, json.loads(codec.encode(place.machine))]
            for place in machines
        ],
        "journal": [line async for line in _lines(store)],
        "polls": scopes,
        "scopes with events": await store.scopes_with_events("", _PAGE),
        "unfinished impacts": [impact.id for impact in await store.unfinished_impacts("", _PAGE)],
        "next due": await store.next_due(),
        "ended": [name for _, name in await store.ended_entities(float("inf"), _PAGE)],
    }


async def _lines(store: Store) -> AsyncIterator[Json]:
    after = 0
    while entries := await store.journal(after=after, limit=_PAGE):
        for entry in entries:
            line, fact = entry.line, entry.line.fact
            announced = codec.announcement(fact.announcement)
            yield [
                entry.number, line.at, line.actor, line.entity[0].__name__, line.entity[1],
                fact.type.value, fact.event, list(fact.machines), fact.operation, fact.detail,
                json.loads(announced) if announced else None,
            ]  # fmt: skip
        after = entries[-1].number


def differences(expected: Json, actual: Json, path: str = "") -> list[str]:
    """Where the actual value lacks or changes something; members that are new do not count."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        changes: list[str] = []
        for key, value in expected.items():
            changes += differences(value, actual.get(key), f"{path}/{key}")
        return changes
    if isinstance(expected, list) and isinstance(actual, list) and len(expected) == len(actual):
        changes = []
        for number, (before, after) in enumerate(zip(expected, actual, strict=True)):
            changes += differences(before, after, f"{path}/{number}")
        return changes
    return [] if expected == actual else [f"{path}: {expected!r} is {actual!r} now"]


DATA = Path(__file__).parent / "data"
_PSQL_COMMAND = re.compile(r"^\\.*\n", re.MULTILINE)  # such as \restrict


def versions() -> list[str]:
    """The versions of which a fleet was saved."""
    return sorted(folder.name for folder in DATA.iterdir())


def expected(version: str) -> Any:  # noqa: ANN401  (any JSON)
    """What the fleet of this version contained."""
    return json.loads(_read(DATA / version / "expected.json.gz"))


def restore_file(version: str, path: Path) -> None:
    """Restore the data file of a version."""
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(_read(DATA / version / "sqlite.sql.gz"))


def restore_database(version: str, url: str) -> None:
    """Restore the database of a version into an empty one."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_read(DATA / version / "postgresql.sql.gz").encode())


def save(version: str) -> None:
    """Save a fleet of the present version."""
    folder = DATA / version
    folder.mkdir(parents=True)
    store = create()
    contents = asyncio.run(_contents(store))
    _write(folder / "expected.json.gz", json.dumps(contents, indent=1, ensure_ascii=False))
    _write(folder / "sqlite.sql.gz", _dump_file(store.steps, folder / "fleet.db"))
    _write(folder / "postgresql.sql.gz", _dump_database(store.steps))


async def _contents(store: Store) -> Any:  # noqa: ANN401  (any JSON)
    await store.open()
    return await facts(store)


async def _fill(store: Store, steps: Steps) -> None:
    await store.open()
    try:
        await steps.write(store)
    finally:
        await store.close()


def _dump_file(steps: Steps, path: Path) -> str:
    asyncio.run(_fill(SQLiteStore(path, reserved_bytes=0), steps))
    with closing(sqlite3.connect(path)) as connection:
        text = "\n".join(connection.iterdump()) + "\n"
    for part in path.parent.glob(f"{path.name}*"):
        part.unlink()
    return text


def _dump_database(steps: Steps) -> str:
    with Server(durable=False) as server:
        url = server.database()
        asyncio.run(_fill(PostgresStore(url), steps))
        words = ("--schema=fairwarning", "--inserts", "--no-owner", "--no-privileges")
        dump = subprocess.run(
            [programs.folder() / "pg_dump", *words, url],
            capture_output=True,
            text=True,
            check=True,
        )
    return _PSQL_COMMAND.sub("", dump.stdout)


def _read(path: Path) -> str:
    return gzip.decompress(path.read_bytes()).decode()


def _write(path: Path, text: str) -> None:
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def main() -> None:
    """Save a fleet from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", help="the minor version, such as 1.1")
    save(parser.parse_args().version)


if __name__ == "__main__":
    main()
