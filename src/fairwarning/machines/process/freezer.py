"""Stops every process of a namespace and lets them go on, so that none of them notices.

Only for the first process of the namespace. A shell that runs while its child stands still takes
the child for suspended by the user, so parents stand still first and go on last.
"""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_STANDSTILL_SECONDS = 0.05  # how long one process may take to stop before the next is told to
_LOOK_SECONDS = 0.0005


def freeze() -> None:
    """Returns when all have been told; a process in the kernel stops as it leaves it."""
    for pid in _inside():
        with suppress(OSError):
            os.kill(pid, signal.SIGSTOP)
            _await_standstill(pid)
    os.kill(-1, signal.SIGSTOP)  # whoever was born meanwhile


def thaw() -> None:
    """All go on."""
    for pid in reversed(_inside()):
        with suppress(OSError):
            os.kill(pid, signal.SIGCONT)
    os.kill(-1, signal.SIGCONT)


def _inside() -> list[int]:
    """All but the first, parents before their children; none where /proc is that of outside."""
    try:
        ours = (_PROC / "self").readlink().name == str(os.getpid())
    except OSError:
        ours = False
    if not ours:
        return []
    pids = sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return [pid for pid in pids if pid != os.getpid()]


def _await_standstill(pid: int) -> None:
    until = time.monotonic() + _STANDSTILL_SECONDS
    while time.monotonic() < until:
        state = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
        if state not in {"R", "S"}:
            return
        time.sleep(_LOOK_SECONDS)
