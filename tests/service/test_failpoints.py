from collections.abc import Iterator

import pytest

from fairwarning.core.commands import Restart
from fairwarning.service import failpoints
from tests.fixtures.fleet import FleetHarness


@pytest.fixture(autouse=True)
def _disarmed() -> Iterator[None]:
    """Disarm failpoints after each test."""
    yield
    failpoints.arm(None)


def test_every_failpoint_is_reached_in_order() -> None:
    """Every failpoint is reached, in the order commit, publish, impact, acknowledge."""
    reached: list[str] = []
    failpoints.arm(reached.append)
    with FleetHarness() as harness:
        harness.make_enabled("vm")
        harness.operate(Restart, "vm", "vm")
        reached.clear()
        harness.approve("vm")
        assert reached == [
            "batch.taken",
            "commit.before",
            "commit.after",
            "publish.after",
            "impact.before",
            "impact.after",
            "ack.before",
            "ack.after",
        ]
        harness.advance(60)
        harness.restart()
    assert set(reached) == set(failpoints.NAMES)
