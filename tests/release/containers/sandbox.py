"""Namespaces for the container engine: pids, mounts and a network with only loopback.

All processes, mounts, bridges and firewall rules inside end with the sandbox.
"""

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

SCRIPT = Path(__file__).with_name("sandbox.sh")
_NAMESPACES = ("--mount", "--net", "--pid", "--cgroup")
_NEW = ("unshare", *_NAMESPACES, "--fork", "--kill-child", "--mount-proc")


class SandboxRefused(Exception):
    """The system does not allow the namespaces or mounts."""


class Sandbox:
    """A process that holds the namespaces."""

    def __init__(self, scratch: Path) -> None:
        # If the tests are killed, the kernel kills the sandbox.
        command = ["setpriv", "--pdeathsig", "KILL", *_NEW, "sh", str(SCRIPT), str(scratch)]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "ready\n":
            _, errors = self._process.communicate()
            raise SandboxRefused(errors.strip())

    def command(self, words: Iterable[str], folder: Path, *, outside: bool = False) -> list[str]:
        """Return a command that runs inside the sandbox, optionally on the system's network."""
        namespaces = [name for name in _NAMESPACES if not (outside and name == "--net")]
        inside = ["nsenter", f"--target={self._first_process()}", *namespaces]
        return [*inside, "--", "env", f"--chdir={folder}", *words]

    def _first_process(self) -> int:
        pid = self._process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text())

    def close(self) -> None:
        """Kill all processes inside."""
        # The parent only exits when every process of the namespace has ended.
        os.kill(self._first_process(), signal.SIGKILL)
        self._process.communicate()


@contextmanager
def sandbox(scratch: Path) -> Iterator[Sandbox]:
    """Provide a new sandbox with an empty folder on which it may mount a tmpfs."""
    inside = Sandbox(scratch)
    try:
        yield inside
    finally:
        inside.close()
