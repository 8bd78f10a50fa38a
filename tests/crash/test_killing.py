"""kill -9 of a real process (P7): nothing acknowledged is lost, nothing is executed twice."""

import asyncio
from pathlib import Path

import pytest

from fairwarning.service import failpoints
from tests.campaigns import split
from tests.cluster.cluster import ForkServer
from tests.crash.killing import KillTest, kill_at_random


async def kill_at_failpoint(name: str, folder: Path, fork_server: ForkServer) -> KillTest:
    """Run processes until one has approved an event, kill one at a failpoint, and check."""
    test = KillTest(folder, 7, fork_server)
    for _ in range(20):  # which requests find an event to approve depends on the speed of answers
        assert not await test.run(requests=60)
        if test.approvals:
            break
    early = name.startswith(("start.", "stop."))
    killed = await test.run(f"{name}:{1 if early else 5}", requests=200)
    assert killed, f"the process did not reach {name}"
    await test.check()
    return test


@pytest.mark.spec("E9")
@pytest.mark.parametrize("name", split(failpoints.NAMES, 6))
def test_a_kill_at_a_failpoint_loses_nothing(name: str, tmp_path: Path) -> None:
    """After a kill there and a restart, everything acknowledged took effect once."""
    with ForkServer() as fork_server:
        test = asyncio.run(kill_at_failpoint(name, tmp_path, fork_server))
    assert test.operations
    assert test.approvals


@pytest.mark.spec("E9")
def test_random_kills_lose_nothing(tmp_path: Path) -> None:
    """After repeated kills under load, everything acknowledged took effect once."""
    with ForkServer() as fork_server:
        test = asyncio.run(kill_at_random(5, 3, tmp_path, fork_server))
    assert test.operations
