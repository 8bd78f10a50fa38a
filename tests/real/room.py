"""A room: a network of one's own that has nothing but loopback, and none of the caller's settings.

`python -m tests.real.room -- COMMAND...` runs a command in one. Root needs nothing for it, any
other user a system that lets users make namespaces.
"""

import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from fcntl import ioctl
from pathlib import Path

import pytest

from fairwarning.machines import namespace

INSIDE = "FAIRWARNING_ROOM"  # inside, names the folder of the room
FORBIDDEN = 77  # exit code where the system has no rooms; pytest has none so high

_PREFIXES = ("AZURE", "ARM_", "IDENTITY_", "MSI_", "PYTEST_", "XDG_")
_SUFFIXES = ("_PROXY", "_CA_BUNDLE")
_NAMES = {"SSL_CERT_FILE", "SSL_CERT_DIR", "NETRC"}

_PYTEST = ("-m", "pytest", "-q", "--no-header", "--runxfail")  # an expected failure is ours to see
_WITHOUT = [f"-pno:{name}" for name in ("cacheprovider", "randomly", "xdist", "schemathesis")]


def is_inside() -> bool:
    """Whether this process is in a room already."""
    return INSIDE in os.environ


def play(node: str, root: Path) -> None:
    """Run this test in a room, and have its outcome."""
    with tempfile.TemporaryDirectory(prefix="room") as name:
        folder = Path(name)
        (folder / "home").mkdir()
        words = (*_PYTEST, *_WITHOUT, "--basetemp", str(folder / "tmp"), node)
        launcher = (sys.executable, "-m", "tests.real.room", "--")
        done = subprocess.run(
            [*launcher, sys.executable, *words],
            cwd=root,
            env=environment(os.environ, folder),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if done.returncode == FORBIDDEN:
            pytest.skip(done.stdout.strip())
        if done.returncode:
            pytest.fail(f"in its room, exit code {done.returncode}:\n{done.stdout}", pytrace=False)
        if (reason := folder / "skipped").exists():
            pytest.skip(reason.read_text())


def note_skip(reason: str) -> None:
    """Inside: tell those outside that the test was skipped."""
    Path(os.environ[INSIDE], "skipped").write_text(reason)


def environment(caller: Mapping[str, str], folder: Path) -> dict[str, str]:
    """The caller's, without what leads anywhere, and with an empty home."""
    kept = {name: value for name, value in caller.items() if not _leads_away(name.upper())}
    return {**kept, "HOME": str(folder / "home"), INSIDE: str(folder)}


def _leads_away(name: str) -> bool:
    return name in _NAMES or name.startswith(_PREFIXES) or name.endswith(_SUFFIXES)


def enter() -> None:
    """Move this process to a network that has loopback only. OSError where that is forbidden."""
    try:
        namespace._unshare(namespace._CLONE_NEWNET)
    except PermissionError:
        _enter_as_user()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        up = struct.pack("16sH22x", b"lo", namespace._IFF_UP)
        ioctl(any_socket, namespace._SIOCSIFFLAGS, up)


def _enter_as_user() -> None:
    user, group = os.geteuid(), os.getegid()
    namespace._unshare(namespace._CLONE_NEWUSER | namespace._CLONE_NEWNET)
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def enter_or_exit() -> None:
    """Enter; where that is forbidden, print why and exit with FORBIDDEN."""
    try:
        enter()
    except OSError as error:
        sys.stdout.write(f"this system has no network namespace for us ({error.strerror})\n")
        raise SystemExit(FORBIDDEN) from error


def main(words: list[str]) -> None:
    """Run the command after `--`."""
    assert len(words) > 1, __doc__
    assert words[0] == "--", __doc__
    enter_or_exit()
    namespace.die_with_parent(signal.SIGINT)  # so that a test clears up after itself
    os.execvp(words[1], words[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
