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
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg

from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Store
from tests.fixtures.postgres import programs
from tests.fixtures.postgres.server import Server
from tests.release.upgrades.sample_fleet import Steps, create, facts

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
