"""The database that tests of a folder with this import ask for."""

from tests.fixtures.postgres.database import database_url

__all__ = ["database_url"]
