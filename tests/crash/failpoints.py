"""Kills a process at a failpoint.

`FAIRWARNING_FAILPOINT=name` in the environment kills the process (SIGKILL) the first time it
reaches the failpoint; `FAIRWARNING_FAILPOINT=name:3` the third time.
"""

import os
import signal

from fairwarning.service.failpoints import NAMES, arm


def arm_from_environment() -> None:
    """Arm the failpoint that `FAIRWARNING_FAILPOINT` names, if it is set."""
    kill_at(os.environ.get("FAIRWARNING_FAILPOINT", ""))


def kill_at(name_and_count: str) -> None:
    """Kill this process at a failpoint, if one is given."""
    failpoint, _, count = name_and_count.partition(":")
    if not failpoint:
        return
    if failpoint not in NAMES:
        raise SystemExit(f"unknown failpoint {failpoint!r}; allowed: {', '.join(NAMES)}")
    remaining = int(count or "1")

    def kill_process(name: str) -> None:
        nonlocal remaining
        if name == failpoint:
            remaining -= 1
            if remaining == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    arm(kill_process)
