"""The database that tests of this folder ask for."""

from tests.postgres.fixtures import database_url

__all__ = ["database_url"]
