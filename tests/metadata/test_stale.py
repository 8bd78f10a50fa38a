"""Stale documents are refused (IK3): no machine may take an old document for the current one."""

from time import monotonic

import pytest

from tests.fixtures.endpoint import EndpointHarness, poll
from tests.fixtures.http import Response, receive
from tests.metadata.conftest import INSTANCE, METADATA

pytestmark = pytest.mark.spec("X3")


def _is_refused(response: Response) -> bool:
    return response.status == 503 and response.headers["retry-after"] == "1"


def test_past_the_limit_every_response_is_503_with_retry_after(endpoint: EndpointHarness) -> None:
    """On a used connection, a new one, held or not; 200 again once the data is fresh."""
    endpoint.make("db")
    kept = endpoint.client("db_0")
    assert poll(kept).status == 200
    assert poll(kept).status == 200  # from the request cache
    held = endpoint.begin("db_0", more="&wait=300", **{"If-None-Match": '"1"'})
    endpoint.wait_until(lambda: endpoint.server.counts.held == 1)
    endpoint.fleet.documents.fresh_until = monotonic() - 1
    endpoint.server.date.expire()  # as it does at the limit
    assert _is_refused(poll(kept))
    assert _is_refused(endpoint.get("db_0"))
    assert _is_refused(endpoint.send_from("db_0", "GET", INSTANCE, METADATA))
    endpoint.fleet.documents.fresh_until = None
    assert poll(kept).status == 200
    endpoint.restart("db_0")
    assert receive(held).status == 200
    held.close()


def test_up_to_the_limit_machines_notice_nothing(endpoint: EndpointHarness) -> None:
    """A database that is unavailable for a while does not affect machines."""
    endpoint.make("db")
    endpoint.fleet.documents.fresh_until = monotonic() + 3600
    assert [endpoint.get("db_0").status for _ in range(3)] == [200, 200, 200]
