"""An endpoint over real sockets, in virtual time."""

from collections.abc import Iterator

import pytest

from tests.fixtures.endpoint import EndpointHarness


@pytest.fixture
def endpoint() -> Iterator[EndpointHarness]:
    """Yield an endpoint without machines."""
    with EndpointHarness() as endpoint:
        yield endpoint
