"""What may be too old is not told (IK3): no machine is to take an old document for the present."""

from time import monotonic

import pytest

from tests.fixtures.endpoint import EndpointHarness, poll
from tests.fixtures.http import Response, receive

pytestmark = pytest.mark.spec("X3")


def _is_refused(answer: Response) -> bool:
    return answer.status == 503 and answer.headers["retry-after"] == "1"


def test_past_the_limit_every_answer_from_memory_is_503_with_retry_after() -> None:
    """On a connection that was answered a moment ago, on a new one, held or not; then again 200."""
    with EndpointHarness() as it:
        it.make("db")
        kept = it.client("db_0")
        assert poll(kept).status == 200
        assert poll(kept).status == 200  # by heart
        held = it.begin("db_0", more="&wait=300", **{"If-None-Match": '"1"'})
        it.wait_until(lambda: it.server.counts.held == 1)
        it.fleet.documents.fresh_until = monotonic() - 1
        assert _is_refused(poll(kept))
        assert _is_refused(it.get("db_0"))
        target = "/metadata/instance?api-version=2021-02-01"
        described = it.send_from("db_0", "GET", target, {"Metadata": "true"})
        assert _is_refused(described)
        it.fleet.documents.fresh_until = None
        assert poll(kept).status == 200
        it.restart("db_0")
        assert receive(held).status == 200
        held.close()


def test_up_to_the_limit_machines_notice_nothing() -> None:
    """A database that is away for a while is not their concern."""
    with EndpointHarness() as it:
        it.make("db")
        it.fleet.documents.fresh_until = monotonic() + 3600
        assert [it.get("db_0").status for _ in range(3)] == [200, 200, 200]
