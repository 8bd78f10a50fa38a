"""Named places where a test may make the process misbehave (die, raise). Free when unused.

`FAIRWARNING_FAILPOINT=name` in the environment kills the process, as by kill -9, the first time it
gets there; `FAIRWARNING_FAILPOINT=name:3` the third time.
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
    """Call `hook` at every failpoint from now on; None disarms."""
    global _hook  # noqa: PLW0603  (a switch for the whole process is what this is)
    _hook = hook


def hit(name: str) -> None:
    """Execution has come to this place."""
    if _hook is not None:
        _hook(name)


def arm_from_environment() -> None:
    """Arm what the environment asks for, if anything."""
    wanted, _, count = os.environ.get("FAIRWARNING_FAILPOINT", "").partition(":")
    if not wanted:
        return
    if wanted not in NAMES:
        raise SystemExit(f"no failpoint {wanted!r}; there are: {', '.join(NAMES)}")
    left = int(count or "1")

    def die(name: str) -> None:
        nonlocal left
        if name == wanted:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    arm(die)
