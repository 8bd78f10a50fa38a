"""Hooks that are programs and report to the test. They run on POSIX systems only."""

import gc
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairwarning.guest.agent.config import HookKind, HookSettings
from fairwarning.guest.events import Phase
from tests.fixtures.waiting import LIMIT_SECONDS

# Reports to the test, over a connection that stays open while the process runs.
HERE = """
import os, signal, socket, sys, time
def here(who=b"h"):
    process = socket.create_connection(("127.0.0.1", int(os.environ["PORT_OF_TEST"])))
    process.sendall(who)
    return process
"""


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
