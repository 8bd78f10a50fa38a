"""The database that a copy is made of."""

from tests.postgres.fixtures import database_url

__all__ = ["database_url"]
