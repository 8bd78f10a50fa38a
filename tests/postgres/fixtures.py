"""Import `database_url` in the conftest.py of a folder whose tests need PostgreSQL."""

from collections.abc import Iterator

import pytest

from tests.postgres.programs import NoPostgreSQL
from tests.postgres.server import database, shared


def database_or_skip() -> str:
    """A new, empty database; where there is no PostgreSQL the test is skipped, and says so."""
    try:
        return database()
    except NoPostgreSQL as reason:
        pytest.skip(str(reason))


@pytest.fixture
def database_url() -> Iterator[str]:
    """A new, empty database of the test's own."""
    url = database_or_skip()
    yield url
    shared().drop(url)
