"""A libvirtd of the test's own: no root, no network, nothing outside a folder that goes again."""

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
    """One that runs, as a user's own (a session), never as the system's."""

    def __init__(self, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self.folder = folder
        self.process = process
        self.socket = folder / "run" / "libvirt" / "libvirt-sock"

    def uri(self, driver: str, path: str, through: Path | None = None) -> str:
        """How it is reached."""
        return f"{driver}+unix:///{path}?socket={through or self.socket}"


@contextmanager
def daemon(settings: str = "", host: str = "") -> Iterator[Daemon]:
    """It runs inside, with these settings for QEMU, and perhaps thinks that it is another host.

    Root's runs as nobody: it is no system's.
    """
    with tempfile.TemporaryDirectory(prefix="fw-") as name:
        found = Daemon(Path(name), _start(Path(name), settings, host))
        try:
            _await(found)
            yield found
        except BaseException as error:
            error.add_note(f"libvirtd ({found.process.poll()}) said:\n{_said(found)}")
            raise
        finally:
            found.process.kill()
            found.process.wait()


def _start(folder: Path, settings: str, host: str) -> subprocess.Popen[bytes]:
    assert LIBVIRTD
    assert SETPRIV
    configuration = folder / "config" / "libvirt"
    configuration.mkdir(parents=True)
    (configuration / "qemu.conf").write_text(settings)
    words = []
    if host:
        identity = f'host_uuid = "{uuid4()}"\n'
        (configuration / "libvirtd.conf").write_text(identity)
        words += ["unshare", "--uts", "sh", "-c", f'hostname {host} && exec "$@"', "-"]
    words += [SETPRIV, "--pdeathsig", "KILL"]
    if os.geteuid() == 0:
        nobody = pwd.getpwnam("nobody")
        for path in (folder, configuration.parent, configuration):
            os.chown(path, nobody.pw_uid, nobody.pw_gid)
        user, group = str(nobody.pw_uid), str(nobody.pw_gid)
        words += ["--reuid", user, "--regid", group, "--clear-groups"]
    environment = {
        "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
        "HOME": str(folder),
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "XDG_CONFIG_HOME": str(folder / "config"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [*words, LIBVIRTD],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        )


def _said(found: Daemon) -> str:
    return (found.folder / "log").read_text()


def _await(found: Daemon) -> None:
    wait_until(
        lambda: _listens(found.socket) or found.process.poll() is not None, lambda: _said(found)
    )
    assert found.process.poll() is None, "it ended"


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0
