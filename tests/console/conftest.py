"""`pytest tests/console --rewrite-explanations` rewrites explanations/; review the diff."""

from collections.abc import Iterator

import pytest

from tests.fixtures.console import ConsoleHarness


@pytest.fixture
def console() -> Iterator[ConsoleHarness]:
    """Start a console with an empty fleet in memory and a virtual clock."""
    with ConsoleHarness() as harness:
        yield harness


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag."""
    parser.addoption(
        "--rewrite-explanations", action="store_true", help="rewrite the texts in explanations/"
    )
