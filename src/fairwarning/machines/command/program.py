"""Runs a program: in a group of its own, for a bounded time, hearing the end of what it says."""

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

KILLED_SECONDS = 5.0  # a killed program is gone at once, unless the kernel itself holds it
_KEPT_BYTES = 16 * 1024  # of what a program says: the end of it
_CHUNK_BYTES = 64 * 1024
_PIPE_BYTES = 1024 * 1024  # no pipe of an ordinary user holds more
_SHOWN_LINES = 20
_LINE_CHARACTERS = 300


class ProgramNotStarted(Exception):
    """The program cannot be run."""


class ProgramExit(NamedTuple):
    """How a program ended, and the last lines that it said."""

    code: int | None  # None: it took too long
    said: list[str]

    def failure(self) -> str:
        """What went wrong, in one line; nothing if all went well."""
        if self.code == 0:
            return ""
        if self.code is None:
            how = "took too long and was ended"
        elif self.code < 0:
            how = f"ended by signal {_signal_name(-self.code)}"
        else:
            how = f"exit code {self.code}"
        return ": ".join([how, *self.said[-1:]])


def run(
    command: Sequence[str],
    *,
    stdin: int,
    environment: Mapping[str, str],
    seconds: float,
    grace_seconds: float,
    born: Callable[[], None] | None = None,
) -> ProgramExit:
    """See a program through. `born` is called in the process that is about to become it."""
    hearing, saying = os.pipe()
    try:
        process = subprocess.Popen(  # noqa: S603  (the operator's own command)
            command,
            stdin=stdin,
            stdout=subprocess.DEVNULL,
            stderr=saying,
            env=environment,
            start_new_session=True,
            preexec_fn=born,  # noqa: PLW1509  (there is one thread)
        )
    except OSError as error:
        os.close(hearing)
        raise ProgramNotStarted(f"cannot be started: {error.strerror}: {command[0]}") from error
    except subprocess.SubprocessError as error:
        os.close(hearing)
        raise ProgramNotStarted("was not started, as its record cannot be written") from error
    finally:
        os.close(saying)
    with closing(_Running(process, hearing)) as running:
        return ProgramExit(running.see_through(seconds, grace_seconds), running.said())


class _Running:
    """A program on its way. What it says never holds it up, and its end wakes us.

    What it leaves running when it exits is left alone, and not waited for: a program that starts a
    machine may leave just that.
    """

    def __init__(self, process: subprocess.Popen[bytes], hearing: int) -> None:
        self._process = process
        self._hearing = hearing
        self._kept = bytearray()
        self._waking, self._woken = os.pipe()
        for end in (hearing, self._waking, self._woken):
            os.set_blocking(end, False)
        self._awaited = [hearing, self._waking]
        signal.set_wakeup_fd(self._woken, warn_on_full_buffer=False)

    def close(self) -> None:
        signal.set_wakeup_fd(-1)
        for end in (self._hearing, self._waking, self._woken):
            os.close(end)

    def see_through(self, seconds: float, grace_seconds: float) -> int | None:
        if self._wait(seconds):
            return self._process.returncode
        self._signal(signal.SIGTERM)
        self._wait(grace_seconds)
        self._signal(signal.SIGKILL)  # also to those of its group who did not listen
        self._wait(KILLED_SECONDS)
        return None

    def said(self) -> list[str]:
        for _ in range(_PIPE_BYTES // _CHUNK_BYTES):  # what it left running may talk for ever
            if not self._hear():
                break
        lines = self._kept.decode("utf-8", "replace").splitlines()
        return [line for line in map(_clean, lines) if line][-_SHOWN_LINES:]

    def _wait(self, seconds: float) -> bool:
        ends = time.monotonic() + seconds
        while self._process.poll() is None:
            left = ends - time.monotonic()
            if left <= 0:
                return False
            ready, _, _ = select.select(self._awaited, [], [], left)
            if self._waking in ready:
                os.read(self._waking, _CHUNK_BYTES)
            if self._hearing in ready and not self._hear():
                self._awaited.remove(self._hearing)  # it has closed its end
        return True

    def _hear(self) -> bool:
        """Whether there was anything."""
        try:
            chunk = os.read(self._hearing, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        self._kept += chunk
        del self._kept[:-_KEPT_BYTES]
        return bool(chunk)

    def _signal(self, number: signal.Signals) -> None:
        with suppress(OSError):  # none of the group is left, or all are another user's
            os.killpg(self._process.pid, number)


def birth(process: int) -> str:
    """When a living process began; no other one of its number did. Empty if nobody can tell."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    state, ticks = stat[0], stat[19]
    return "" if state in "ZX" else f"{boot} {ticks}"


def _clean(line: str) -> str:
    """What no terminal or log can be misled by."""
    shown = "".join(one if one.isprintable() else " " for one in line[:_LINE_CHARACTERS])
    return shown.strip()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
