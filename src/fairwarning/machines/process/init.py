"""The init process of a machine: it starts the program and signals all processes of the machine.

Which processes those are, `processes.py` knows. It decides nothing: the supervisor outside
(`supervisor.py`) sends it commands over a channel, each a word and an argument:

    "name", the host name to set
    "start", when no process of an earlier run is left
    "program" or "all", the number of a signal for the program, or for all processes of the machine
    "freeze" and "thaw"
    "resume", whether in the foreground: a program that the user has suspended

It reports "ended" with an exit code when the program ends, "empty" once after each start, when no
process is left, and "suspended" when a user stops the program from the terminal.
"""

import os
import select
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from fairwarning.machines.process.channel import Channel, Word
from fairwarning.machines.process.processes import MachineProcesses

NOT_FOUND, NOT_EXECUTABLE, KILLED = 127, 126, 128  # exit codes as in shells
_WAKE_BYTES = 64
_LOOK_SECONDS = 0.05  # between two looks at processes whose end is not reported to us
# Signals that Python or this module ignores and that a program must not inherit as ignored.
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTOU)


class InitProcess:
    """The parent of a machine's program."""

    def __init__(
        self,
        channel: Channel,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        processes: MachineProcesses,
        *,
        foreground: bool,
    ) -> None:
        self._channel = channel
        self._command = command
        self._environment = environment
        self._processes = processes
        self._foreground = foreground
        self._suspended = False  # by the user, from the terminal
        self._program = 0
        self._empty = True
        self._leftover = False  # the program has ended, and processes that it started have not

    def run(self) -> None:
        """Run until the supervisor closes the channel."""
        self._processes.enter()
        wake = self._handle_signals()
        sources: tuple[Channel | socket.socket, ...] = (self._channel, wake)
        while True:
            ready, _, _ = select.select(sources, (), (), _LOOK_SECONDS if self._leftover else None)
            if wake in ready:
                wake.recv(_WAKE_BYTES)
            if wake in ready or self._leftover:
                self._reap()
            if self._channel in ready:
                words, _ = self._channel.receive()
                if not words:
                    self._processes.end()
                    return
                with suppress(ProcessLookupError, PermissionError):
                    self._execute(*words)

    def _handle_signals(self) -> socket.socket:
        """Return a socket that is readable when a child has ended or stopped."""
        wake_reader, wake_writer = socket.socketpair()
        for end in (wake_reader, wake_writer):
            end.settimeout(0)
        signal.set_wakeup_fd(-1)
        for number in signal.valid_signals():
            if callable(signal.getsignal(number)):
                signal.signal(number, signal.SIG_DFL)  # which process 1 does not receive
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # this process sets the foreground group
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_writer.detach())
        return wake_reader

    def _execute(self, command: Word, argument: Word = "") -> None:
        match command, argument:
            case "name", str(host_name):
                self._processes.name_host(host_name)
            case "start", _:
                self._start()
            case "program", int(number):
                if self._program:
                    os.kill(self._program, number)
            case "all", int(number):
                self._processes.signal(number)
            case "freeze", _:
                self._processes.freeze()
            case "thaw", _:
                self._thaw()
            case "resume", bool(foreground):
                self._resume(foreground=foreground)

    def _start(self) -> None:
        self._empty = False
        self._suspended = False
        try:
            self._program = os.fork()
        except OSError:  # too many processes
            self._channel.send("ended", NOT_EXECUTABLE)
            self._reap()
            return
        if self._program == 0:
            signal.set_wakeup_fd(-1)
            _exec(self._command, self._environment, foreground=self._foreground)
        self._processes.started(self._program)

    def _thaw(self) -> None:
        self._processes.thaw()
        if self._suspended:
            os.killpg(self._program, signal.SIGSTOP)

    def _resume(self, *, foreground: bool) -> None:
        self._foreground = foreground
        self._suspended = False
        if not self._program:
            return
        if foreground:
            with suppress(OSError):
                os.tcsetpgrp(0, self._program)
        os.killpg(self._program, signal.SIGCONT)

    def _reap(self) -> None:
        children = True
        while children and not self._empty:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                pid, children = 0, False
            if pid == 0:
                self._report_empty(children=children)
                return
            if pid == self._program:
                self._report_program(status)

    def _report_empty(self, *, children: bool) -> None:
        self._leftover = not self._program and self._processes.remain(children=children)
        if not self._program and not self._leftover:
            self._empty = True
            self._channel.send("empty")

    def _report_program(self, status: int) -> None:
        if os.WIFSTOPPED(status):
            if self._foreground and os.WSTOPSIG(status) == signal.SIGTSTP:
                self._foreground = False  # the shell has the terminal until the user resumes us
                self._suspended = True
                self._channel.send("suspended")
            return
        self._program = 0
        code = os.waitstatus_to_exitcode(status)
        self._channel.send("ended", code if code >= 0 else KILLED - code)


def _exec(
    command: tuple[str, ...], environment: Mapping[str, str], *, foreground: bool
) -> NoReturn:
    try:
        os.setpgid(0, 0)
        if foreground:
            with suppress(OSError):
                os.tcsetpgrp(0, os.getpgrp())
        for number in _RESTORED:
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(command[0], command, environment)  # noqa: S606  (the user's own command)
    except OSError as error:
        exists = _exists(command[0], environment)
        reason = error.strerror if exists else "not found"
        os.write(2, os.fsencode(f"fairwarning: cannot run {command[0]}: {reason}\n"))
        os._exit(NOT_EXECUTABLE if exists else NOT_FOUND)
    finally:
        os._exit(NOT_EXECUTABLE)


def _exists(name: str, environment: Mapping[str, str]) -> bool:
    folders = [""] if "/" in name else os.get_exec_path(environment)
    return any(os.access(Path(folder, name), os.F_OK) for folder in folders)
