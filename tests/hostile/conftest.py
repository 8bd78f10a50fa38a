import asyncio
from collections.abc import Callable, Iterator

import pytest
import uvloop

from fairwarning.metadata import socket_events
from tests.fixtures.endpoint import EndpointHarness

MakeEndpoint = Callable[[], EndpointHarness]
_WAYS = {
    "uvloop": (uvloop.new_event_loop, True),
    "uvloop without epoll": (uvloop.new_event_loop, False),
    "asyncio": (asyncio.new_event_loop, True),
}


@pytest.fixture
def endpoint() -> Iterator[EndpointHarness]:
    """Yield an endpoint without machines."""
    with EndpointHarness() as endpoint:
        yield endpoint


@pytest.fixture(params=_WAYS)
def make_endpoint(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> MakeEndpoint:
    """Make an endpoint; run the test with each way of waiting for connections."""
    make_loop, epoll = _WAYS[request.param]
    monkeypatch.setattr(socket_events, "HAS_EPOLL", epoll)
    return lambda: EndpointHarness(make_loop=make_loop)
