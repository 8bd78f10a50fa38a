"""The real program, with failpoints: `python -m tests.crash.program up ...`.

What FAIRWARNING_FAILPOINT names is armed at SIGUSR1, so that a test can first look around; a line
tells when it is.
"""

import signal

from fairwarning.cli.main import main
from fairwarning.service import failpoints


def arm(*_: object) -> None:
    """Arm."""
    failpoints.arm_from_environment()
    print("armed", flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGUSR1, arm)
    main()
