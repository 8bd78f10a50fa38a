from collections.abc import Iterator

import pytest

from tests.fixtures.fleet import FleetHarness


@pytest.fixture
def harness() -> Iterator[FleetHarness]:
    """Yield an empty fleet in virtual time."""
    with FleetHarness() as harness:
        yield harness
