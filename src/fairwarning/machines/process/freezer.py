"""Stops and resumes every process of a PID namespace, without any of them noticing.

Only for process 1 of the namespace. A running shell takes a stopped child for one suspended by the
user, so parents are stopped before their children and resumed after them.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_STOP_SECONDS = 0.05  # how long to wait for one process to stop before signalling the next
_POLL_SECONDS = 0.0005


def freeze() -> None:
    """Stop all processes; a process inside a system call stops when it leaves the kernel."""
    for pid in _pids():
        with suppress(OSError):
            os.kill(pid, signal.SIGSTOP)
            _wait_until_stopped(pid)
    os.kill(-1, signal.SIGSTOP)  # processes forked meanwhile


def thaw() -> None:
    """Resume all processes."""
    for pid in reversed(_pids()):
        with suppress(OSError):
            os.kill(pid, signal.SIGCONT)
    os.kill(-1, signal.SIGCONT)


def _pids() -> list[int]:
    """Return all pids but 1, parents first; none if /proc is that of another namespace."""
    try:
        ours = (_PROC / "self").readlink().name == str(os.getpid())
    except OSError:
        ours = False
    if not ours:
        return []
    pids = sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return [pid for pid in pids if pid != os.getpid()]


def _wait_until_stopped(pid: int) -> None:
    deadline = time.monotonic() + _STOP_SECONDS
    while time.monotonic() < deadline:
        state = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
        if state not in {"R", "S"}:
            return
        time.sleep(_POLL_SECONDS)
