"""Named places where a test can make the process crash or raise. They cost nothing when unused.

`FAIRWARNING_FAILPOINT=name` in the environment kills the process (SIGKILL) the first time it
reaches the failpoint; `FAIRWARNING_FAILPOINT=name:3` the third time.
"""

import os
import signal
from collections.abc import Callable
from typing import Final

NAMES: Final = (
    "batch.taken",
    "commit.before",
    "commit.after",
    "publish.after",
    "impact.before",
    "impact.after",
    "ack.before",
    "ack.after",
    "report.before",
    "start.opened",
    "start.recovered",
    "stop.drained",
)

_hook: Callable[[str], None] | None = None


def arm(hook: Callable[[str], None] | None) -> None:
    """Call `hook` at every failpoint; None disarms."""
    global _hook  # noqa: PLW0603  (failpoints are global to the process)
    _hook = hook


def hit(name: str) -> None:
    """Call the hook, if one is armed."""
    if _hook is not None:
        _hook(name)


def arm_from_environment() -> None:
    """Arm the failpoint that `FAIRWARNING_FAILPOINT` names, if it is set."""
    failpoint, _, count = os.environ.get("FAIRWARNING_FAILPOINT", "").partition(":")
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
