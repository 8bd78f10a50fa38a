"""The database that a copy is made of."""

from tests.fixtures.postgres.database import database_url

__all__ = ["database_url"]
