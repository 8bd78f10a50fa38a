"""Runs a program in its own process group, with a time limit, and keeps the end of its output."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from fairwarning.core.printable import printable

BOOT_ID_VARIABLE = "FAIRWARNING_BOOT_ID"  # for a sandbox that hides the boot id
KILLED_SECONDS = 5.0  # a killed program ends at once, unless it is blocked in the kernel
_KEPT_BYTES = 16 * 1024  # of a program's output, from its end
_CHUNK_BYTES = 64 * 1024
_PIPE_BYTES = 1024 * 1024  # the largest pipe of an unprivileged user
_SHOWN_LINES = 20
_LINE_CHARACTERS = 300


class ProgramNotStarted(Exception):
    """The program could not be started."""


class ProgramExit(NamedTuple):
    """How a program ended, and the last lines of its output."""

    code: int | None  # None: it took too long
    output: list[str]

    def failure(self) -> str:
        """Return what went wrong in one line; empty on success."""
        if self.code == 0:
            return ""
        if self.code is None:
            how = "took too long and was ended"
        elif self.code < 0:
            how = f"ended by signal {_signal_name(-self.code)}"
        else:
            how = f"exit code {self.code}"
        return ": ".join([how, *self.output[-1:]])


def run(
    command: Sequence[str],
    *,
    stdin: int,
    environment: Mapping[str, str],
    seconds: float,
    grace_seconds: float,
    on_fork: Callable[[], None] | None = None,
) -> ProgramExit:
    """Run a program to its end. `on_fork` is called in the child process before it executes."""
    reader, writer = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: S603  (the operator's own command)
            command,
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=writer,
            env=environment,
            start_new_session=True,
            preexec_fn=on_fork,  # noqa: PLW1509  (there is one thread)
        )
    except OSError as error:
        os.close(reader)
        raise ProgramNotStarted(f"cannot be started: {error.strerror}: {command[0]}") from error
    except subprocess.SubprocessError as error:
        os.close(reader)
        raise ProgramNotStarted("was not started, as its record cannot be written") from error
    finally:
        os.close(writer)
    with closing(_RunningProgram(process, reader)) as running:
        return ProgramExit(running.wait(seconds, grace_seconds), running.output())


class _RunningProgram:
    """A running program. Its output never blocks it, and its end wakes us.

    Processes that it leaves running are neither ended nor waited for: a program that starts a
    machine may leave exactly that.
    """

    def __init__(self, process: subprocess.Popen[bytes], reader: int) -> None:
        self._process = process
        self._reader = reader
        self._kept = bytearray()
        self._wake_reader, self._wake_writer = os.pipe()
        for end in (reader, self._wake_reader, self._wake_writer):
            os.set_blocking(end, False)
        self._awaited = [reader, self._wake_reader]
        signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        for end in (self._reader, self._wake_reader, self._wake_writer):
            os.close(end)

    def wait(self, seconds: float, grace_seconds: float) -> int | None:
        if self._wait(seconds):
            return self._process.returncode
        self._signal(signal.SIGTERM)
        self._wait(grace_seconds)
        self._signal(signal.SIGKILL)  # also processes of its group that ignored SIGTERM
        self._wait(KILLED_SECONDS)
        return None

    def output(self) -> list[str]:
        for _ in range(_PIPE_BYTES // _CHUNK_BYTES):  # processes it left may write without end
            if not self._read():
                break
        return output_lines(self._kept)

    def _wait(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self._process.poll() is None:
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            ready, _, _ = select.select(self._awaited, [], [], left)
            if self._wake_reader in ready:
                os.read(self._wake_reader, _CHUNK_BYTES)
            if self._reader in ready and not self._read():
                self._awaited.remove(self._reader)  # the program has closed its end
        return True

    def _read(self) -> bool:
        """Read a chunk of output; return whether there was any."""
        try:
            chunk = os.read(self._reader, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        self._kept += chunk
        del self._kept[:-_KEPT_BYTES]
        return bool(chunk)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(OSError):  # the group is empty, or belongs to another user
            os.killpg(self._process.pid, number)


def output_lines(output: bytes | bytearray) -> list[str]:
    """Return the last lines of a program's output, without empty ones."""
    lines = output.decode("utf-8", "replace").splitlines()
    shown = (printable(line.strip(), _LINE_CHARACTERS) for line in lines)
    return [line for line in shown if line][-_SHOWN_LINES:]


def start_time(process: int) -> str:
    """Return when a process started, which identifies it among processes with the same id.

    Empty if the process has ended or its start time is unknown.
    """
    boot = os.environ.get(BOOT_ID_VARIABLE, "")
    try:
        stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    with suppress(OSError):
        boot = boot or Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    state, ticks = stat[0], stat[19]
    return "" if state in "ZX" else f"{boot} {ticks}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
