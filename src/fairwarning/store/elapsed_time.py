"""A clock that no step changes and that a suspended host does not stop."""

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed_time() -> float:
    """Seconds since some moment; they include suspended time where the OS supports it."""
    return time.clock_gettime(_CLOCK)
