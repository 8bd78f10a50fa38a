"""`pytest tests/contract --rewrite` rewrites transcripts, fields and accounts; review the diff."""

from collections.abc import Iterator

import pytest

from tests.fixtures.fleet import FleetHarness


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag."""
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write what is compared with files into them",
    )


@pytest.fixture
def harness() -> Iterator[FleetHarness]:
    """Yield an empty fleet in virtual time."""
    with FleetHarness() as harness:
        yield harness
