"""A private libvirtd for tests: no root, no network, and all files in a temporary folder."""

import os
import pwd
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from tests.fixtures.requirements import LIBVIRTD, SETPRIV
from tests.fixtures.waiting import wait_until


class Daemon:
    """A running libvirtd in session mode, never the system's."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self.process = process
        self.socket = folder / "run" / "libvirt" / "libvirt-sock"

    def uri(self, driver: str, path: str, through: Path | None = None) -> str:
        """Return the URI to connect to it."""
        return f"{driver}+unix:///{path}?socket={through or self.socket}"


@contextmanager
def daemon(settings: str = "", host: str = "") -> Iterator[Daemon]:
    """Run a libvirtd with these settings for QEMU, optionally with the name of another host.

    If the tests run as root, it runs as nobody, so that it is not the system's.
    """
    with tempfile.TemporaryDirectory(prefix="fw-") as name:
        libvirtd = Daemon(Path(name), _start(Path(name), settings, host))
        try:
            _wait_until_ready(libvirtd)
            yield libvirtd
        except BaseException as error:
            error.add_note(f"libvirtd ({libvirtd.process.poll()}) logged:\n{_log(libvirtd)}")
            raise
        finally:
            libvirtd.process.kill()
            libvirtd.process.wait()


def _start(folder: Path, settings: str, host: str) -> subprocess.Popen[bytes]:
    assert LIBVIRTD
    assert SETPRIV
    configuration = folder / "config" / "libvirt"
    configuration.mkdir(parents=True)
    (configuration / "qemu.conf").write_text(settings)
    command = []
    if host:
        identity = f'host_uuid = "{uuid4()}"\n'
        (configuration / "libvirtd.conf").write_text(identity)
        command += ["unshare", "--uts", "sh", "-c", f'hostname {host} && exec "$@"', "-"]
    command += [SETPRIV, "--pdeathsig", "KILL"]
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        for path in (folder, configuration.parent, configuration):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
        user, group = str(nobody.pw_uid), str(nobody.pw_gid)
        command += ["--reuid", user, "--regid", group, "--clear-groups"]
    environment = {
        "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
        "HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [*command, LIBVIRTD],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _log(libvirtd: Daemon) -> str:
    return (libvirtd.folder / "log").read_text()


def _wait_until_ready(libvirtd: Daemon) -> None:
    wait_until(
        lambda: _listens(libvirtd.socket) or libvirtd.process.poll() is not None,
        lambda: _log(libvirtd),
    )
    assert libvirtd.process.poll() is None, "libvirtd ended"


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0
