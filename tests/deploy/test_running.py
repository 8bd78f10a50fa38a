"""What the image runs, run: it gets up, is found to be well, and stops when it is told to."""

import signal
import subprocess
from pathlib import Path

from tests.deploy.files import healthcheck, image
from tests.fixtures.service import PROGRAM, run_command
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

_LISTENS = ("metadata", "console", "arm")


def test_its_healthcheck_finds_it(tmp_path: Path) -> None:
    """With the very words of the Containerfile; only ports and the folder are others."""
    folder = image().option("--data")
    words = [one.replace(folder, str(tmp_path / "data")) for one in image().words]
    for name in _LISTENS:
        words = [one.replace(f":{image().port(f'--{name}')}", ":0") for one in words]
    process = subprocess.Popen([*PROGRAM, *words], stdout=subprocess.DEVNULL)
    try:
        ready = tmp_path / "data" / "up.json"
        wait_until(lambda: ready.exists() or process.poll() is not None, "the service is up")
        assert process.poll() is None
        asked = [one.replace(folder, str(tmp_path / "data")) for one in healthcheck().words]
        done = run_command(*asked)
        assert (done.returncode, done.stderr) == (0, "")
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
