"""P8: a full disk. Reads go on, nothing acknowledged is lost, and it ends when space is freed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.programs import ROOT, run_program

CYCLES = 5
MOUNT = 'mount -t tmpfs -o size=4m none "$1" && exec "$2" -m tests.store.full_disk "$1" "$3"'


def on_a_small_disk(folder: Path, program: str) -> subprocess.CompletedProcess[str]:
    """In a namespace of our own, where anybody may mount a filesystem of 4 MiB."""
    command = ("unshare", "-rm", "sh", "-c", MOUNT, "sh", str(folder), program, str(CYCLES))
    return run_program(*command, cwd=ROOT)


def can_mount() -> str:
    """Why no filesystem can be mounted here; nothing if it can."""
    try:
        done = run_program("unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt")
    except OSError as error:
        return str(error)
    return done.stderr


def test_a_small_disk_filled_and_freed(tmp_path: Path) -> None:
    """Five times: what is in flight is finished, the next refused, reads go on, it recovers."""
    if reason := can_mount():
        pytest.skip(f"no filesystem can be mounted here ({reason.strip()}); see the limit on files")
    done = on_a_small_disk(tmp_path, sys.executable)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    print(said)  # noqa: T201  (the counts, with -rP)
    assert said["cycles"] == CYCLES
    assert said["refused"] >= 6 * CYCLES
    assert said["taken_while_full"] >= 1  # what the ballast is for


def test_files_that_may_not_grow(tmp_path: Path) -> None:
    """The same where a limit, not the disk, is reached (EFBIG; a quota looks like it)."""
    words = ("-m", "tests.store.full_disk", str(tmp_path), str(CYCLES), "--limit")
    done = run_program(sys.executable, *words, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    print(said)  # noqa: T201  (the counts, with -rP)
    assert said["refused"] >= 6 * CYCLES
