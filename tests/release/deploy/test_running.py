"""The command of the image: it starts, its health check succeeds, and it stops on SIGTERM."""

import signal
import subprocess
from pathlib import Path

from tests.fixtures.service import PROGRAM, run_command
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until
from tests.release.deploy.files import healthcheck, image

_LISTENS = ("metadata", "console", "arm")


def test_the_healthcheck_succeeds(tmp_path: Path) -> None:
    """With the commands of the Containerfile, except for ports and the folder."""
    folder = image().option("--data")
    words = [word.replace(folder, str(tmp_path / "data")) for word in image().words]
    for name in _LISTENS:
        words = [word.replace(f":{image().port(f'--{name}')}", ":0") for word in words]
    process = subprocess.Popen([*PROGRAM, *words], stdout=subprocess.DEVNULL)
    try:
        ready = tmp_path / "data" / "up.json"
        wait_until(lambda: ready.exists() or process.poll() is not None, "the service is up")
        assert process.poll() is None
        check = [word.replace(folder, str(tmp_path / "data")) for word in healthcheck().words]
        done = run_command(*check)
        assert (done.returncode, done.stderr) == (0, "")
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT_SECONDS) == 0
    finally:
        process.kill()
        process.wait()
