"""A file that reserves space on the journal's disk, and is deleted when the disk is full."""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from pathlib import Path

from fairwarning.guest.agent import system

RESERVE_BYTES = 64 * 1024  # some hundred lines of the journal
_RENEW_SECONDS = 60.0  # between attempts to reserve the space again

_DISK_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


def is_disk_full(error: OSError) -> bool:
    """Whether a file could not be written for lack of space, by the disk or by a limit."""
    return error.errno in _DISK_FULL


class DiskReserve:
    """Reserved space on the disk of a folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "reserve"
        self._tried_at = float("-inf")

    def renew(self) -> None:
        """Reserve the space if it is not reserved; try that only now and then."""
        now = time.monotonic()
        if now - self._tried_at < _RENEW_SECONDS:
            return
        self._tried_at = now
        try:
            if not self._path.exists() or self._path.stat().st_size != RESERVE_BYTES:
                # A disk that compresses would not store zeros.
                system.write_file(self._path, os.urandom(RESERVE_BYTES), sync=True)
        except OSError:
            self.give_up()  # part of it would only take the last space

    def give_up(self) -> bool:
        """Free the space; return whether there was any."""
        with suppress(OSError):
            self._path.unlink()
            return True
        return False
