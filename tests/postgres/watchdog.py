"""Ends the servers of a run, and removes its folder, when the run is over or was killed.

`python watchdog.py PID FOLDER` goes to the background by itself and waits for the end of PID.
"""

import os
import select
import shutil
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

PATIENCE_SECONDS = 10.0


def wait(process: int) -> None:
    """Return when it is no more."""
    with suppress(ProcessLookupError):
        if hasattr(os, "pidfd_open"):
            select.select([os.pidfd_open(process)], [], [])
        while True:
            os.kill(process, 0)
            time.sleep(0.2)


def alive(process: int, data: Path) -> bool:
    """Whether this is still the server of that folder, and not somebody who got its number."""
    try:
        return os.fsencode(data) in Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False


def end(data: Path) -> None:
    """At once, but in order: nothing of it stays in shared memory."""
    try:
        process = int((data / "postmaster.pid").read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return
    give_up = time.monotonic() + PATIENCE_SECONDS
    if alive(process, data):
        os.kill(process, signal.SIGQUIT)
    while alive(process, data):
        time.sleep(0.02)
        if time.monotonic() > give_up:
            os.kill(process, signal.SIGKILL)


def main() -> None:
    """Watch, in the background."""
    process, folder = int(sys.argv[1]), Path(sys.argv[2])
    if os.fork():
        return
    os.setsid()
    wait(process)
    for data in folder.glob("*/data"):
        end(data)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
