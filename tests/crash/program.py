"""The real program, with failpoints: `python -m tests.crash.program up ...`.

SIGUSR1 arms the failpoint in FAIRWARNING_FAILPOINT, so that a test can do something before; the
program then prints a line.
"""

import signal

from fairwarning.cli.main import main
from tests.crash import failpoints


def arm(*_: object) -> None:
    """Arm the failpoint."""
    failpoints.arm_from_environment()
    print("armed", flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, arm)
    main()
