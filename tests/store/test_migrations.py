"""Migrations: applied once, in order, all or none, and never to a database that they do not fit."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fairwarning.core.errors import FairwarningError, StoreDamaged, Unavailable
from fairwarning.store import schema
from fairwarning.store.postgres import schema as postgres_schema
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.scripts import Migration
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Store
from tests.fixtures.postgres.database import database_or_skip
from tests.store.batch_generator import BatchGenerator
from tests.store.conftest import Scenario, run_scenario
from tests.store.test_opening import refusal

COLOUR = "ALTER TABLE note ADD COLUMN colour TEXT;\nCREATE TABLE t (a int);\n"
WRONG = "CREATE TABLE u (a int);\nCREATE TABLE u (a int);\n"


@dataclass(frozen=True)
class Database:
    """A database, which a version with any migrations can open."""

    shipped: list[Migration]
    store: Callable[[list[Migration]], Store]
    file: Path | None = None

    def later(self, *texts: str) -> list[Migration]:
        """The migrations of a later version, the last of which have these texts."""
        migrations = list(self.shipped)
        for text in texts:
            number = len(migrations) + 1
            migrations.append(Migration(number, f"{number:04}_later.sql", text))
        return migrations

    def refusal(self, migrations: list[Migration]) -> FairwarningError:
        """The error of a version that does not open the database, which leaves it unchanged."""
        content = self.file.read_bytes() if self.file else b""
        error = refusal(self.store(migrations))
        assert not self.file or self.file.read_bytes() == content
        return error

    def fill(self) -> Scenario:
        """Fill the database by this version; return a check of the content, which also writes."""
        generator = BatchGenerator(1)

        async def write(store: Store) -> None:
            for _ in range(10):
                await store.commit(generator.random_batch(5))

        async def check(store: Store) -> None:
            assert await store.load(generator.entities) == generator.entities
            assert [entry.line for entry in await store.journal(limit=9999)] == generator.lines
            await store.commit(generator.random_batch(5))

        run_scenario(self.store(self.shipped), write)
        return check


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """A database without a table."""
    if request.param == "postgresql":
        url = database_or_skip()
        return Database(
            postgres_schema.migrations(),
            lambda migrations: PostgresStore(url, migrations=migrations),
        )
    path = tmp_path / "fleet.db"
    return Database(
        schema.migrations(),
        lambda migrations: SQLiteStore(path, reserved_bytes=4096, migrations=migrations),
        path,
    )


def test_migrations_are_numbered_without_a_gap(database: Database) -> None:
    """0001, 0002, ...: a database always has the first ones of the code."""
    for number, migration in enumerate(database.shipped, start=1):
        assert migration.number == number
        assert migration.name.startswith(f"{number:04}_")


def test_an_older_database_is_migrated(database: Database) -> None:
    """Once, and its content stays; for the older version, the error says what to do."""
    check = database.fill()
    later = database.later(COLOUR)
    for _ in range(2):
        run_scenario(database.store(later), check)
    error = database.refusal(database.shipped)
    assert isinstance(error, Unavailable)
    assert error.code == "StoreNewer"
    assert later[-1].name in error.message
    assert "install that version" in error.message


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_older_code_runs_with_a_newer_schema_that_allows_it(database: Database) -> None:
    """Expand first: the old version can restart while the new one replaces it."""
    check = database.fill()
    for migrations in (database.later(f"-- needs: 1\n{COLOUR}"), database.shipped):
        run_scenario(database.store(migrations), check)


def test_a_migration_that_fails_undoes_those_before_it(database: Database) -> None:
    """The old version can open the database as before, and a later one migrates it."""
    check = database.fill()
    assert database.refusal(database.later(COLOUR, WRONG)).code == "StoreFailed"
    for migrations in (database.shipped, database.later(COLOUR)):
        run_scenario(database.store(migrations), check)


def test_a_changed_migration_is_detected(database: Database) -> None:
    """A database that was created with another text may not fit the code."""
    database.fill()
    first, *others = database.later(COLOUR)
    error = database.refusal([replace(first, text=f"{first.text}-- edited\n"), *others])
    assert isinstance(error, StoreDamaged)
    assert error.code == "StoreChanged"
    assert first.name in error.message
