"""The processes of a machine: how its init process starts, signals and freezes them."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fairwarning.machines.process import namespace

_KILL_SECONDS = 5.0  # for processes to end after SIGKILL
_LOOK_SECONDS = 0.01
_PROC = Path("/proc")
_STOP_SECONDS = 0.05  # how long to wait for one process to stop before signalling the next
_POLL_SECONDS = 0.0005


class NamespaceProcesses:
    """The processes of a PID namespace, whose process 1 the init process is.

    The kernel makes it the parent of every orphan, and kills all other processes when it ends.
    """

    def __init__(self, folder: Path, aliases: Sequence[str]) -> None:
        """`folder` is for temporary files, `aliases` are names that resolve to loopback."""
        self._folder = folder
        self._aliases = aliases
        self._own_mounts = False

    def enter(self) -> None:
        """Prepare this process, which is process 1."""
        namespace.die_with_parent(signal.SIGKILL)  # if the parent has ended: no words
        self._own_mounts = namespace.own_mounts()
        if self._own_mounts:
            namespace.mount_proc()

    def name_host(self, host_name: str) -> None:
        """Name the host, and let its name resolve."""
        name = namespace.name_host(host_name)
        if self._own_mounts:
            hosts = _hosts(name, self._aliases)
            namespace.mount_texts({"/etc/hostname": f"{name}\n", "/etc/hosts": hosts}, self._folder)

    def started(self, program: int) -> None:
        """Do nothing: every process is in the namespace."""

    def signal(self, number: int) -> None:
        """Signal all processes of the namespace but this one."""
        os.kill(-1, number)

    def freeze(self) -> None:
        """Stop all processes."""
        _freeze_namespace()

    def thaw(self) -> None:
        """Resume all processes."""
        _thaw_namespace()

    def remain(self, *, children: bool) -> bool:
        """Return whether the program, which has ended, has left processes.

        `children` is whether the init process has children: every orphan becomes one.
        """
        return children

    def end(self) -> None:
        """Do nothing: the kernel kills them."""


class GroupProcesses:
    """The process group of a program that runs without namespaces.

    Processes that leave the group, as the jobs of an interactive shell do, are not reached.
    """

    def __init__(self) -> None:
        self._group = 0  # 0 if no process is left, as the number may then be used again

    def enter(self) -> None:
        """Leave the group of the user's process, whose signals are for the program."""
        os.setpgid(0, 0)
        # In a container whose process 1 reaps no orphans, the group would never be empty.
        if sys.platform.startswith("linux"):
            with suppress(OSError):
                namespace.adopt_orphans()

    def name_host(self, host_name: str) -> None:
        """Do nothing: the program sees the name of this host."""

    def started(self, program: int) -> None:
        """Give the program its group; it does so itself, whichever is first."""
        self._group = program
        with suppress(OSError):
            os.setpgid(program, program)

    def signal(self, number: int) -> None:
        """Signal all processes of the group."""
        if self._group:
            os.killpg(self._group, number)

    def freeze(self) -> None:
        """Stop all processes."""
        self.signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume all processes."""
        self.signal(signal.SIGCONT)

    def remain(self, *, children: bool = False) -> bool:  # noqa: ARG002  (may have left the group)
        """Return whether the group has processes."""
        try:
            self.signal(0)
        except OSError:  # none, or none that this user may signal
            self._group = 0
        return self._group != 0

    def end(self) -> None:
        """Kill all processes; return when they have ended."""
        deadline = time.monotonic() + _KILL_SECONDS
        while self.remain() and time.monotonic() < deadline:
            with suppress(OSError):
                self.signal(signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)
            time.sleep(_LOOK_SECONDS)


MachineProcesses = NamespaceProcesses | GroupProcesses
"""All processes of one machine, as its init process controls them."""


def _hosts(name: str, aliases: Sequence[str]) -> str:
    """Return the text of /etc/hosts with the machine's name, whose address answers inside."""
    try:
        outside = Path("/etc/hosts").read_text(errors="replace")
    except OSError:
        outside = "127.0.0.1 localhost\n"
    lines = [f"127.0.1.1 {name}", *(f"127.0.0.1 {alias}" for alias in aliases), outside]
    return "\n".join(lines)


def _freeze_namespace() -> None:
    """Stop all processes of the PID namespace of this process, without any of them noticing.

    A running shell takes a stopped child for one suspended by the user, so parents are stopped
    before their children and resumed after them. A process inside a system call stops when it
    leaves the kernel.
    """
    for pid in _pids():
        with suppress(OSError):
            os.kill(pid, signal.SIGSTOP)
            _wait_until_stopped(pid)
    os.kill(-1, signal.SIGSTOP)  # processes forked meanwhile


def _thaw_namespace() -> None:
    for pid in reversed(_pids()):
        with suppress(OSError):
            os.kill(pid, signal.SIGCONT)
    os.kill(-1, signal.SIGCONT)


def _pids() -> list[int]:
    """Return all pids but 1, parents first; none if /proc is that of another namespace."""
    try:
        ours = (_PROC / "self").readlink().name == str(os.getpid())
    except OSError:
        ours = False
    if not ours:
        return []
    pids = sorted(int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit())
    return [pid for pid in pids if pid != os.getpid()]


def _wait_until_stopped(pid: int) -> None:
    deadline = time.monotonic() + _STOP_SECONDS
    while time.monotonic() < deadline:
        state = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[0]
        if state not in {"R", "S"}:
            return
        time.sleep(_POLL_SECONDS)
