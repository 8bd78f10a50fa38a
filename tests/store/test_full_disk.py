"""P8: a full disk. Reads work, nothing acknowledged is lost, and it recovers once freed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.programs import ROOT, run_program

CYCLES = 5
MOUNT = 'mount -t tmpfs -o size=4m none "$1" && exec "$2" -m tests.store.full_disk "$1" "$3"'


def on_a_small_disk(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """Run in a user namespace, where any user may mount a filesystem of 4 MiB."""
    command = ("unshare", "-rm", "sh", "-c", MOUNT, "sh", str(folder), program, str(CYCLES))
    return run_program(*command, cwd=ROOT)


def mount_error() -> str:
    """Return why no filesystem can be mounted here; empty if one can."""
    try:
        done = run_program("unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt")
    except OSError as error:
        return str(error)
    return done.stderr


def test_a_small_disk_filled_and_freed(tmp_path: Path) -> None:
    """Five times: the current batch is stored, the next refused, reads work, it recovers."""
    if reason := mount_error():
        pytest.skip(f"no filesystem can be mounted here ({reason.strip()})")
    done = on_a_small_disk(tmp_path, sys.executable)
    assert done.returncode == 0, done.stderr
    counts: dict[str, int] = json.loads(done.stdout)
    print(counts)  # noqa: T201  (the counts, with -rP)
    assert counts["cycles"] == CYCLES
    assert counts["refused"] >= 6 * CYCLES  # every cycle had refusals
    assert counts["taken_while_full"] >= 1  # the purpose of the reserved space
