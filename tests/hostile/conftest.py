import asyncio
from collections.abc import Callable

import pytest
import uvloop

from fairwarning.metadata import accepting
from tests.fixtures.endpoint import EndpointHarness

_WAYS = {
    "uvloop": (uvloop.new_event_loop, False),
    "uvloop with few descriptors": (uvloop.new_event_loop, True),
    "asyncio": (asyncio.new_event_loop, False),
}


@pytest.fixture(params=_WAYS)
def make_endpoint(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], EndpointHarness]:
    """Make an endpoint; run the test with each way of accepting connections."""
    make_loop, few_descriptors = _WAYS[request.param]
    monkeypatch.setattr(accepting, "_may_run_out", lambda _: few_descriptors)
    return lambda: EndpointHarness(make_loop=make_loop)
