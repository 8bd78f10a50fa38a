"""What the image runs, run: it gets up, is found to be well, and stops when it is told to."""

import signal
import subprocess
import time
from pathlib import Path

from tests.cli.stage import LONGEST_SECONDS, PROGRAM, run
from tests.deploy.files import healthcheck, image

_LISTENS = ("metadata", "console", "arm")
_LOOK_SECONDS = 0.02


def test_its_healthcheck_finds_it(tmp_path: Path) -> None:
    """With the very words of the Containerfile; only ports and the folder are others."""
    folder = image().option("--data")
    words = [one.replace(folder, str(tmp_path / "data")) for one in image().words]
    for name in _LISTENS:
        words = [one.replace(f":{image().port(f'--{name}')}", ":0") for one in words]
    process = subprocess.Popen([*PROGRAM, *words], stdout=subprocess.DEVNULL)
    try:
        ends = time.monotonic() + LONGEST_SECONDS
        while not (tmp_path / "data" / "up.json").exists():
            assert process.poll() is None
            assert time.monotonic() < ends
            time.sleep(_LOOK_SECONDS)
        asked = [one.replace(folder, str(tmp_path / "data")) for one in healthcheck().words]
        done = run(*asked)
        assert (done.returncode, done.stderr) == (0, "")
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONGEST_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
