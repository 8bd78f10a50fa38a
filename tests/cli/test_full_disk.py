"""A service whose disk is full says so to those who watch over it (O10)."""

import os
import ssl
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

import pytest

from tests.fixtures.http import LOOPBACK, fetch
from tests.fixtures.programs import run_program
from tests.fixtures.service import PROGRAM, ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

MOUNT = 'mount -t tmpfs -o size=16m none "$SMALL_DISK" && exec "$@"'
"""Any user may do this in a user namespace; 16 MiB are a little more than an empty fleet takes."""


class SmallDisk(ServiceProcess):
    """A service whose data folder is on a filesystem of 16 MiB that only it sees."""

    program = ("unshare", "-rm", "sh", "-c", MOUNT, "sh", *PROGRAM)

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        super().__init__(folder / "data", env=os.environ | {"SMALL_DISK": str(folder)})

    def start(self) -> Self:
        super().start()
        # The same filesystem, as seen from outside.
        self._inside = Path(f"/proc/{self.process.pid}/root{self._folder}")
        self.data = self._inside / "data"
        return self

    def fill(self) -> None:
        """Use up all space."""
        with suppress(OSError), (self._inside / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        """Free the space."""
        (self._inside / "filler").unlink()


def small_disk(folder: Path) -> SmallDisk:
    """Skip where no filesystem can be mounted."""
    try:
        error = run_program("unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt").stderr
    except OSError as missing:
        error = str(missing)
    if error:
        pytest.skip(f"no filesystem can be mounted here ({error.strip()})")
    return SmallDisk(folder / "disk")


def write_until_refused(service: ServiceProcess) -> None:
    """Create machines until the service cannot."""
    names = (f"vm_{number}" for number in count())
    wait_until(
        lambda: service.api("POST", "/api/machines", {"name": next(names)}).status == 503,
        "a command refused because of the disk",
    )


@pytest.mark.spec("O10")
def test_a_full_disk(tmp_path: Path) -> None:
    """The check fails and says why while the disk is full, and passes once there is room."""
    with small_disk(tmp_path) as service:
        assert service.run("healthcheck").returncode == 0
        service.fill()
        write_until_refused(service)
        wait_until(lambda: service.run("healthcheck").returncode == 1, "the check fails")
        assert "the store cannot be written (StoreFull)" in service.run("healthcheck").stderr
        assert fetch(f"{service.ready['console']}/readyz").status == 503
        assert fetch(f"{service.ready['console']}/healthz").status == 200
        service.free()
        wait_until(lambda: service.run("healthcheck").returncode == 0, "the check passes")
        assert service.api("POST", "/api/machines", {"name": "after"}).status == 201


def test_a_certificate_on_a_full_disk(tmp_path: Path) -> None:
    """The port closes connections at once and says why; it serves TLS once there is room (IB5)."""
    with small_disk(tmp_path) as service:
        port = urlsplit(service.ready["arm"]).port or 0
        service.fill()
        for _ in range(3):
            with pytest.raises(OSError, match=r"EOF|reset|closed"):
                ssl.get_server_certificate((LOOPBACK, port), timeout=LIMIT_SECONDS)
        parts = fetch(f"{service.ready['console']}/readyz").json["parts"]
        (problem,) = [part["problem"] for part in parts if part["name"] == "arm"]
        assert "cannot serve connections" in problem
        service.free()
        wait_until(lambda: serves_tls(port), "the port serves TLS")
        wait_until(lambda: fetch(f"{service.ready['console']}/readyz").json["status"] == "ok", "ok")
        log = service.stop()[1]
    assert log.count("the arm port cannot serve connections and closes them") == 1
    assert "No space left on device" in log
    assert "the arm port serves connections again" in log


def serves_tls(port: int) -> bool:
    """Whether a TLS handshake succeeds."""
    try:
        ssl.get_server_certificate((LOOPBACK, port), timeout=LIMIT_SECONDS)
    except OSError:
        return False
    return True
