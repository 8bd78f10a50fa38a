"""The database that tests of this folder ask for."""

from tests.fixtures.postgres.database import database_url

__all__ = ["database_url"]
