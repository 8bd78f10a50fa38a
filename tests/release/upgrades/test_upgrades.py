"""Data that an earlier version saved can be opened, is complete, and continues."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fairwarning.core.errors import Unavailable
from fairwarning.core.model import Scope
from fairwarning.store import schema
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.scripts import Migration
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Store
from tests.bench.fleets import Never, serving
from tests.fixtures.fleet import FleetHarness
from tests.fixtures.postgres.database import database_or_skip
from tests.release.upgrades import saved

DAY = 86400
CANDIDATE = """
CREATE TABLE migration (number INTEGER PRIMARY KEY, name TEXT, checksum TEXT, at REAL);
INSERT INTO migration VALUES
    (1, '0001_first.sql', 'df30dfc6d9bec81c702dac3020782e77cdd15623cc8c92292738bf85fac6fbd2', 0);
"""
VERSIONS = saved.versions()


async def _facts(store: Store) -> saved.Json:
    await store.open()
    try:
        return await saved.facts(store)
    finally:
        await store.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_a_data_file_is_complete_after_the_upgrade(version: str, tmp_path: Path) -> None:
    """Entities, machines, journal, polls, impacts and due times are those that were saved."""
    path = tmp_path / "fleet.db"
    saved.restore_file(version, path)
    actual = asyncio.run(_facts(SQLiteStore(path, reserved_bytes=4096)))
    assert saved.differences(saved.expected(version), actual) == []


@pytest.mark.spec("X1")
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_database_is_complete_after_the_upgrade(version: str) -> None:
    """Entities, machines, journal, polls and due times are those that were saved.

    Its process is gone, so the new one takes over the unfinished impacts.
    """
    url = database_or_skip()
    saved.restore_database(version, url)
    actual = await _facts(PostgresStore(url))
    assert saved.differences(saved.expected(version), actual) == []


@pytest.mark.parametrize("version", VERSIONS)
def test_a_fleet_continues_after_the_upgrade(version: str, tmp_path: Path) -> None:
    """What was due happens, nothing stops the writer, and every scope can be polled."""
    path = tmp_path / "fleet.db"
    saved.restore_file(version, path)
    with FleetHarness(SQLiteStore(path, reserved_bytes=4096)) as harness:
        harness.advance(DAY)
        assert harness.fleet.broken is None
        assert not harness.run(harness.store.unfinished_impacts("", 1))
        for name in harness.run(harness.store.list_ids(Scope, "", 1000)):
            harness.poll(name)
        assert harness.operation("late").ended_at is not None
        assert harness.rollout("hosts").ended_at is not None


@pytest.mark.spec("X1")
@pytest.mark.parametrize("version", VERSIONS)
async def test_a_cluster_continues_after_the_upgrade(version: str) -> None:
    """A process of the present version takes over what is due and unfinished."""
    url = database_or_skip()
    saved.restore_database(version, url)
    driver = Never()
    async with serving(PostgresStore(url), driver) as fleet:
        await fleet.settled()
        assert fleet.broken is None
        published = await fleet.poll("polled")
        assert published.incarnation >= 1


def test_a_later_file_is_refused_by_name(tmp_path: Path) -> None:
    """A downgrade is refused with the name of what is missing, and changes nothing."""
    path = tmp_path / "fleet.db"
    saved.restore_file(VERSIONS[-1], path)
    later = schema.migrations()
    number = len(later) + 1
    migration = Migration(number, f"{number:04}_later.sql", "CREATE TABLE later (a);")
    asyncio.run(_facts(SQLiteStore(path, reserved_bytes=4096, migrations=[*later, migration])))
    with pytest.raises(Unavailable) as refused:
        asyncio.run(_facts(SQLiteStore(path, reserved_bytes=4096)))
    assert refused.value.code == "StoreNewer"
    assert migration.name in refused.value.message


def test_the_data_of_a_candidate_is_refused(tmp_path: Path) -> None:
    """It says what to do, and changes nothing."""
    path = tmp_path / "fleet.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(CANDIDATE)
    before = path.read_bytes()
    with pytest.raises(Unavailable) as refused:
        asyncio.run(_facts(SQLiteStore(path, reserved_bytes=4096)))
    assert refused.value.code == "StoreOfCandidate"
    assert "start with a new data folder" in refused.value.message
    assert path.read_bytes() == before
