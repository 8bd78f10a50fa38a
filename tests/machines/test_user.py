"""No root: what the other tests prove holds for a user without any rights."""

import os
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import pytest

from tests.machines.stage import needs_namespaces

NOBODY = 65534
ROOT = Path(__file__).parent.parent.parent
PICKED = "answers_as or sees_inside or exit_codes or stands_still or redeploy or not_done_twice"


def as_nobody(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run something as another user, who finds the same packages."""
    packages = [str(ROOT / "src"), sysconfig.get_path("purelib")]
    return subprocess.run(
        words,
        check=False,
        capture_output=True,
        text=True,
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        cwd=ROOT,
        env={**os.environ, "HOME": str(home), "PYTHONPATH": os.pathsep.join(packages)},
    )


def a_python(home: Path) -> str:
    """One that such a user can run: ours may be in somebody's home."""
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            tried = as_nobody(home, python, "-c", "import click, pytest, tests.service.rig")
        except OSError:
            continue
        if tried.returncode == 0:
            return python
    pytest.skip("another user can read neither this Python nor this checkout")


@pytest.mark.spec("O3", "O4")
@pytest.mark.skipif(os.getuid() != 0, reason="this run is not root's anyway")
@needs_namespaces
def test_a_user_without_any_rights() -> None:
    """Endpoint, exit codes, freeze, redeploy and restart work for them; none is left out."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        os.chown(home, NOBODY, NOBODY)
        words = (a_python(home), "-B", "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider")
        there = f"--basetemp={home / 'tests'}"
        ended = as_nobody(home, *words, there, "-k", PICKED, str(Path(__file__).parent))
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "passed" in ended.stdout
    assert "skipped" not in ended.stdout
