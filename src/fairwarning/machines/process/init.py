"""The init process of a machine: it starts the program and signals all processes of the machine.

It is process 1 of its PID namespace, so the kernel makes it the parent of every orphan, and kills
all other processes when it ends. It decides nothing: the supervisor outside (`supervisor.py`)
sends it commands.
"""

import os
import select
import signal
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from fairwarning.machines.process import freezer, namespace

NOT_FOUND, NOT_EXECUTABLE, KILLED = 127, 126, 128  # exit codes as in shells
_MESSAGE_BYTES = 64
# Signals that Python or this module ignores and that a program must not inherit as ignored.
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTOU)


class InitProcess:
    """The supervisor's handle of the init process.

    `channel` delivers "ended CODE" when the program ends, "empty" once after each start, when no
    process is left, "suspended" when a user stops the program from the terminal, and end of file
    when the init process has ended.
    """

    def __init__(
        self, command: tuple[str, ...], environment: Mapping[str, str], *, foreground: bool
    ) -> None:
        """Fork the process. With `foreground`, give the program the terminal, as a shell would."""
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if self._pid == 0:
            self.channel.close()
            _run_init(_InitProcess(theirs, command, environment, foreground=foreground))
        theirs.close()
        self.channel.settimeout(0)

    def start(self) -> None:
        """Start the program. No process of an earlier run may be left."""
        self._send("start")

    def signal_program(self, number: int) -> None:
        self._send(f"program {number}")

    def signal_all(self, number: int) -> None:
        """Signal all processes of the machine, also those that the program started."""
        self._send(f"all {number}")

    def freeze(self) -> None:
        self._send("freeze")

    def thaw(self) -> None:
        self._send("thaw")

    def resume(self, *, foreground: bool) -> None:
        """Resume a program that the user suspended, with the terminal or without."""
        self._send(f"resume {int(foreground)}")

    def receive(self) -> list[str]:
        """Return the words of the next message; none if the process has ended."""
        try:
            return self.channel.recv(_MESSAGE_BYTES).decode().split()
        except BlockingIOError:
            return ["nothing"]
        except OSError:
            return []

    def kill(self) -> None:
        """Kill the process and everything inside, and wait for its end."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self.channel.close()

    def _send(self, message: str) -> None:
        with suppress(OSError):  # `receive` notices that the process has ended
            self.channel.send(message.encode())


def _run_init(process: "_InitProcess") -> NoReturn:
    try:
        namespace.die_with_parent(signal.SIGKILL)  # if the parent has ended: end of file
        namespace.mount_proc()
        process.run()
    finally:
        os._exit(1)


class _InitProcess:
    def __init__(
        self,
        channel: socket.socket,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        *,
        foreground: bool,
    ) -> None:
        self._channel = channel
        self._command = command
        self._environment = environment
        self._foreground = foreground
        self._program = 0
        self._empty = True

    def run(self) -> None:
        """Run until the supervisor closes the channel."""
        wake_reader, wake_writer = socket.socketpair()
        for end in (wake_reader, wake_writer):
            end.settimeout(0)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # which process 1 does not receive
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # this process sets the foreground group
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake_writer.fileno())
        while True:
            ready, _, _ = select.select([self._channel, wake_reader], [], [])
            if wake_reader in ready:
                wake_reader.recv(_MESSAGE_BYTES)
                self._reap()
            if self._channel in ready:
                words = self._channel.recv(_MESSAGE_BYTES).decode().split()
                if not words:
                    return
                self._execute(*words)

    def _execute(self, command: str, number: str = "") -> None:
        with suppress(ProcessLookupError, PermissionError):
            match command:
                case "start":
                    self._start()
                case "program":
                    if self._program:
                        os.kill(self._program, int(number))
                case "all":
                    os.kill(-1, int(number))
                case "freeze":
                    freezer.freeze()
                case "thaw":
                    freezer.thaw()
                case "resume":
                    self._resume(foreground=number == "1")

    def _start(self) -> None:
        self._empty = False
        try:
            self._program = os.fork()
        except OSError:  # too many processes
            self._channel.send(f"ended {NOT_EXECUTABLE}".encode())
            self._reap()
            return
        if self._program == 0:
            signal.set_wakeup_fd(-1)
            _exec(self._command, self._environment, foreground=self._foreground)

    def _resume(self, *, foreground: bool) -> None:
        self._foreground = foreground
        if foreground:
            with suppress(OSError):
                os.tcsetpgrp(0, self._program)
        os.killpg(self._program, signal.SIGCONT)

    def _reap(self) -> None:
        while not self._empty:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                self._empty = True
                self._channel.send(b"empty")
                return
            if pid == 0:
                return
            if pid == self._program:
                self._report_program(status)

    def _report_program(self, status: int) -> None:
        if os.WIFSTOPPED(status):
            if self._foreground and os.WSTOPSIG(status) == signal.SIGTSTP:
                self._channel.send(b"suspended")
            return
        self._program = 0
        code = os.waitstatus_to_exitcode(status)
        self._channel.send(f"ended {code if code >= 0 else KILLED - code}".encode())


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
