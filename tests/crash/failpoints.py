"""The real program, with failpoints: `python -m tests.crash.failpoints up ...`.

SIGUSR1 arms the failpoint in FAIRWARNING_FAILPOINT, so that a test can do something before; the
program then prints a line. `name` kills the process (SIGKILL) the first time it reaches the
failpoint, `name:3` the third time.
"""

import os
import signal

from fairwarning.service.failpoints import NAMES, arm


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


def _arm_from_environment(*_: object) -> None:
    kill_at(os.environ.get("FAIRWARNING_FAILPOINT", ""))
    print("armed", flush=True)


if __name__ == "__main__":
    from fairwarning.cli.main import main

    signal.signal(signal.SIGUSR1, _arm_from_environment)
    main()
