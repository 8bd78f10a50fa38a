"""The database for backup tests."""

from tests.fixtures.postgres.database import database_url

__all__ = ["database_url"]
