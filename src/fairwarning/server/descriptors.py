"""The limit of open files of this process."""

import resource
import sys
from contextlib import suppress


def raise_file_limit(needed: int) -> int:
    """Raise the limit of open files to `needed`, as far as allowed; return the limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return sys.maxsize
    if soft >= needed:
        return soft
    raised = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    with suppress(OSError, ValueError):  # macOS allows less than its hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, hard))
        return raised
    return soft
