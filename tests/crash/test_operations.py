"""kill -9 of `fairwarning up` while Azure's tools send it operations (P7)."""

import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.crash import operations
from tests.crash.killed_service import ProcessEnded, operation_url
from tests.crash.operations import OperationKillTest, OperationRequest
from tests.fixtures.http import Response

FAILPOINTS = (
    "commit.before:2", "commit.after:2", "impact.after:1", "ack.before:3", "report.before:1",
)  # fmt: skip


@pytest.mark.spec("C1", "E9")
def test_an_operation_acknowledged_right_before_a_kill_is_kept(tmp_path: Path) -> None:
    """202, then kill -9: token, authority and URL stay valid, and the operation finishes."""
    with OperationKillTest(tmp_path, seed=1) as test:
        for request in (
            OperationRequest("restart", "vm_0"),
            OperationRequest("delete", "vm_1"),
            OperationRequest("scale", capacity=3),
        ):
            service = test.start()
            reply = test.send(service, request)
            assert service.end(signal.SIGKILL) == -signal.SIGKILL
            assert operation_url(reply)
        service = test.start()
        assert service.end(signal.SIGINT) == 0
        assert test.finished == 3


@pytest.mark.spec("C1", "E9")
def test_a_kill_at_a_failpoint_keeps_operations_atomic(tmp_path: Path) -> None:
    """Acknowledged operations finish; others took effect completely or not at all."""
    with OperationKillTest(tmp_path, seed=2) as test:
        for failpoint in FAILPOINTS:
            service = test.start(failpoint)
            service.arm_failpoint()
            test.load(service, requests=40)
            assert service.end() == -signal.SIGKILL, f"it did not reach {failpoint}"
        service = test.start()
        assert service.end(signal.SIGINT) == 0
        assert test.finished


@pytest.mark.campaign
@pytest.mark.spec("C1", "E9")
def test_random_kills_keep_operations_atomic(tmp_path: Path) -> None:
    """Killed at any time under load, the service loses no acknowledged operation."""
    assert operations.kill_at_random(3, seed=3, folder=tmp_path).finished


@pytest.mark.spec("C1", "E9")
def test_a_deployment_is_complete_or_can_be_repeated(tmp_path: Path) -> None:
    """After a kill during a deployment it is complete if acknowledged, else a repetition is.

    It commits five times: four resources, and itself.
    """
    with OperationKillTest(tmp_path, seed=4) as test:
        reply: Response | None = None
        for number, failpoint in enumerate(("commit.after:2", "commit.before:5", "")):
            service = test.start(failpoint, check=False)
            if number:
                assert operations.check_deployment(service, number - 1, reply)
            service.arm_failpoint()
            with suppress(ProcessEnded):
                reply = operations.deploy(service, number)
            assert bool(reply) == (not failpoint)
            assert service.end(0 if failpoint else signal.SIGKILL) == -signal.SIGKILL
        service = test.start(check=False)
        assert not operations.check_deployment(service, number, reply)
        assert service.end(signal.SIGINT) == 0
