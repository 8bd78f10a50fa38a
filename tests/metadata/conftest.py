"""An endpoint over real sockets, in virtual time, and what tests send it."""

from collections.abc import Iterator

import pytest

from tests.fixtures.endpoint import EndpointHarness

VERSIONS = (
    "2017-03-01", "2017-08-01", "2017-11-01", "2019-01-01", "2019-04-01", "2019-08-01",
    "2020-07-01",
)  # fmt: skip
INSTANCE = "/metadata/instance?api-version=2021-02-01"
NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
METADATA = {"Metadata": "true"}
EMPTY = b'{"DocumentIncarnation":1,"Events":[]}'


@pytest.fixture
def endpoint() -> Iterator[EndpointHarness]:
    """Yield an endpoint without machines."""
    with EndpointHarness() as endpoint:
        yield endpoint
