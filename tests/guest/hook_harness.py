"""Hooks as real programs that report to the test, and a runner that counts their ends."""

import gc
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fairwarning.guest.agent.actions import RunHook
from fairwarning.guest.agent.config import HookKind, HookSettings
from fairwarning.guest.agent.hooks import HookRunner
from fairwarning.guest.events import Event, EventSource, EventStatus, EventType
from fairwarning.guest.watch import Phase
from tests.fixtures.waiting import LIMIT_SECONDS

SOON_SECONDS = 20.0  # to start and end a process on a busy machine

EVENT = Event(
    id="602D9444-D2CD-49C7-8624-8643E7171297",
    type=EventType.REBOOT,
    status=EventStatus.SCHEDULED,
    resources=("vm-1", "vm-2"),
    not_before=datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC),
    source=EventSource.PLATFORM,
    duration=timedelta(seconds=9),
    description="Host \u00fcber all",
)

# Reports to the test, over a connection that stays open while the process lives.
HERE = """
import os, signal, socket, sys, time
def here(who=b"h"):
    process = socket.create_connection(("127.0.0.1", int(os.environ["PORT_OF_TEST"])))
    process.sendall(who)
    return process
"""

HookResult = tuple[str, Phase, str, str]


class HookHarness:
    """A hook runner, and the results that it reported."""

    def __init__(self, state: Path | None = None) -> None:
        self._results: list[HookResult] = []
        self._changed = threading.Condition()
        self.hooks = HookRunner("vm-1", self._ended, state=state)
        self._runs = 0

    def _ended(self, event: str, phase: Phase, hook: str, failed: str) -> None:
        with self._changed:
            self._results.append((event, phase, hook, failed))
            self._changed.notify_all()

    def run(
        self,
        hook: HookSettings,
        *,
        seconds: float = LIMIT_SECONDS,
        event: Event = EVENT,
        cancelled: bool = False,
    ) -> RunHook:
        """Start a hook."""
        deadline = datetime.now(UTC) + timedelta(seconds=seconds)
        run = RunHook(hook, hook.phase, event, deadline, cancelled)
        self._runs += 1
        self.hooks.run(run)
        return run

    def results(self) -> list[HookResult]:
        """Wait for all started hooks; return their results."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._results) >= self._runs, LIMIT_SECONDS)
            return list(self._results)

    def failure(self) -> str:
        """Return the failure of the only hook."""
        ((event, phase, _, failed),) = self.results()
        assert (event, phase) == (EVENT.id, Phase.SCHEDULED)
        return failed


@contextmanager
def hook_harness(state: Path | None = None) -> Iterator[HookHarness]:
    """Check that no thread is left and that each end was reported once."""
    harness = HookHarness(state)
    try:
        yield harness
    finally:
        harness.hooks.close()
        for thread in threading.enumerate():
            if "hook" in thread.name:
                thread.join(LIMIT_SECONDS)
                assert not thread.is_alive(), thread.name
    assert len(harness.results()) == harness._runs


@contextmanager
def listening_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Accept connections of hooks that call `here()`."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        server.settimeout(LIMIT_SECONDS)
        monkeypatch.setenv("PORT_OF_TEST", str(server.getsockname()[1]))
        yield server


def accept_process(server: socket.socket) -> socket.socket:
    """Return the connection of a process that called `here()`."""
    return accept_processes(server, 1)[b"h"][0]


def accept_processes(server: socket.socket, count: int) -> dict[bytes, list[socket.socket]]:
    """Return the connections of this many processes, by the byte they send."""
    processes: dict[bytes, list[socket.socket]] = {}
    for _ in range(count):
        process, _ = server.accept()
        process.settimeout(LIMIT_SECONDS)
        processes.setdefault(process.recv(1), []).append(process)
    return processes


def gone(process: socket.socket) -> bool:
    """Whether that process has exited."""
    try:
        return process.recv(1) == b""
    except ConnectionResetError:
        return True


def program(code: str, name: str = "main") -> HookSettings:
    """Return a hook that is a Python program."""
    command = (sys.executable, "-S", "-E", "-c", code)
    return HookSettings(name, Phase.SCHEDULED, HookKind.COMMAND, command=command)


def descriptors() -> int:
    """Return the number of open files, after collecting garbage of earlier tests."""
    gc.collect()
    return len(list(Path("/dev/fd").iterdir()))
