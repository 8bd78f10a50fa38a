"""A background task outlives an error that nobody expected, and says so (IB5)."""

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from fairwarning.core.errors import Refused
from fairwarning.metadata.server import MetadataServer
from fairwarning.server import machine_listeners, operator_ports
from fairwarning.server.certificates import Authority
from fairwarning.server.machine_sockets import MachineSockets
from fairwarning.server.operator_ports import OperatorPorts
from fairwarning.service import issued_tokens, retention
from fairwarning.service.clock import RealClock
from fairwarning.service.config.settings import JournalSettings, OperationSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.issued_tokens import IssuedTokens
from fairwarning.service.retention import Retention
from fairwarning.service.tokens import Tokens
from fairwarning.store.memory import MemoryStore
from tests.fixtures.fleet import simulated_driver
from tests.fixtures.waiting import wait_until_async

PAUSES = {
    retention: ("_CHECK_SECONDS", "_LEAST_WAIT_SECONDS"),
    issued_tokens: ("FOLLOW_SECONDS", "_DROP_SECONDS"),
    machine_listeners: ("_COMPARE_SECONDS",),
    operator_ports: ("_RENEW_SECONDS",),
}
Task = tuple[object, str, Coroutine[Any, Any, None]]


def task_of(name: str, folder: Path) -> Task:
    """An object, the method that its background task calls again and again, and that task."""
    store, clock = MemoryStore(), RealClock()
    fleet = Fleet(store, clock, simulated_driver(clock))
    tokens = IssuedTokens(Tokens(b"k" * 32, "t"), fleet)
    match name:
        case "retention":
            kept = Retention(fleet, JournalSettings(), OperationSettings())
            return kept, "drop_old", kept.run()
        case "revocations":
            store.shared = True  # type: ignore[assignment]  # as on PostgreSQL
            return tokens, "refresh", tokens.follow()
        case "expiry":
            return tokens, "drop_expired", tokens.run_expiry()
        case "listeners":
            sockets = MachineSockets(folder, MetadataServer(fleet), fleet)
            return sockets, "_compare", sockets._keep_comparing()
    ports = OperatorPorts.__new__(OperatorPorts)
    ports.authority = Authority(folder, ())
    return ports.authority, "renew", ports.renew_certificates()


@pytest.mark.parametrize(
    "name", ["retention", "revocations", "expiry", "listeners", "certificates"]
)
async def test_the_next_attempt_is_made(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The error is logged, and the work is done again as if it had not happened."""
    for module, pauses in PAUSES.items():
        for pause in pauses:
            monkeypatch.setattr(module, pause, 0.0)
    owner, method, work = task_of(name, tmp_path)
    attempts: list[int] = []

    def fail_once() -> None:
        attempts.append(1)
        if len(attempts) == 1:
            raise KeyError("a row that cannot be read")

    async def fail_once_async() -> None:
        fail_once()

    failing = fail_once if name == "certificates" else fail_once_async
    monkeypatch.setattr(owner, method, failing)
    task = asyncio.create_task(work)
    await wait_until_async(lambda: len(attempts) > 1, "a second attempt")
    task.cancel()
    assert "a row that cannot be read" in caplog.text


async def test_a_renewal_that_fails_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is tried again, and each reason is logged once."""
    monkeypatch.setattr(operator_ports, "_RENEW_SECONDS", 0.0)
    authority, _, work = task_of("certificates", tmp_path)
    over = threading.Event()
    reasons = ["full", "full", "full", "read-only", "", "read-only"]

    def fail() -> None:
        if not reasons:
            over.set()
        elif reason := reasons.pop(0):
            raise Refused("BadCertificate", f"the disk is {reason}")

    monkeypatch.setattr(authority, "renew", fail)
    task = asyncio.create_task(work)
    await wait_until_async(over.is_set, "all attempts")
    task.cancel()
    logged = [record.message.rpartition(" ")[2] for record in caplog.records]
    assert logged == ["full", "read-only", "read-only"]


def test_a_certificate_that_expires_while_the_host_is_suspended() -> None:
    """The pause between two looks at it, which does not count that time, is short (IB5)."""
    assert operator_ports._RENEW_SECONDS <= 600
