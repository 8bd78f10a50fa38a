"""The database for the tests of this folder."""

from tests.fixtures.postgres.database import database_url

__all__ = ["database_url"]
