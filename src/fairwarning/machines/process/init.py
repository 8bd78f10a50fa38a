"""The first process inside a machine: it starts the program, and reaches every process there.

It is process 1 of its namespace, so the kernel gives it every orphan, and when it dies ends all the
rest. It decides nothing: the supervisor outside (`inside.py`) tells it what to do, a word each.
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

NOT_FOUND, NOT_EXECUTABLE, KILLED = 127, 126, 128  # exit codes as shells give them
_WORD_BYTES = 64
# What Python or this module ignores, and a program must not inherit.
_RESTORED = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTTOU)


class InitProcess:
    """The first process, as its supervisor holds it.

    From `channel` come "ended CODE" when the program ends, "empty" once after each start, when no
    process is left, "suspended" when a user stops the program from the terminal, and an end of file
    when the first process has died.
    """

    def __init__(
        self, command: tuple[str, ...], environment: Mapping[str, str], *, front: bool
    ) -> None:
        """Fork it. With `front`, the program gets the terminal, as a shell would give it."""
        self.channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._pid = os.fork()
        if self._pid == 0:
            self.channel.close()
            _run_init(_InitProcess(theirs, command, environment, front=front))
        theirs.close()
        self.channel.settimeout(0)

    def start(self) -> None:
        """Start the program. Nothing may be left of an earlier one."""
        self._say("start")

    def signal_program(self, number: int) -> None:
        self._say(f"program {number}")

    def signal_all(self, number: int) -> None:
        """Also what the program started, wherever that has hidden itself."""
        self._say(f"all {number}")

    def freeze(self) -> None:
        self._say("freeze")

    def thaw(self) -> None:
        self._say("thaw")

    def resume(self, *, front: bool) -> None:
        """The user lets a suspended program go on, with the terminal or without."""
        self._say(f"resume {int(front)}")

    def hear(self) -> list[str]:
        """Its next words; none when it is dead."""
        try:
            return self.channel.recv(_WORD_BYTES).decode().split()
        except BlockingIOError:
            return ["nothing"]
        except OSError:
            return []

    def kill(self) -> None:
        """End it and everything inside, and wait until that is so."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self.channel.close()

    def _say(self, words: str) -> None:
        with suppress(OSError):  # a dead one is noticed where it is heard
            self.channel.send(words.encode())


def _run_init(first: "_InitProcess") -> NoReturn:
    try:
        namespace.die_with_parent(signal.SIGKILL)  # a parent dead by now is an end of file
        namespace.mount_proc()
        first.run()
    finally:
        os._exit(1)


class _InitProcess:
    def __init__(
        self,
        channel: socket.socket,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        *,
        front: bool,
    ) -> None:
        self._channel = channel
        self._command = command
        self._environment = environment
        self._front = front
        self._program = 0
        self._empty = True

    def run(self) -> None:
        """Until the supervisor hangs up."""
        wake, poke = socket.socketpair()
        for end in (wake, poke):
            end.settimeout(0)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # to which process 1 is immune
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # it hands the terminal around
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(poke.fileno())
        while True:
            ready, _, _ = select.select([self._channel, wake], [], [])
            if wake in ready:
                wake.recv(_WORD_BYTES)
                self._reap()
            if self._channel in ready:
                words = self._channel.recv(_WORD_BYTES).decode().split()
                if not words:
                    return
                self._obey(*words)

    def _obey(self, word: str, number: str = "") -> None:
        with suppress(ProcessLookupError, PermissionError):
            match word:
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
                    self._resume(front=number == "1")

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
            _become(self._command, self._environment, front=self._front)

    def _resume(self, *, front: bool) -> None:
        self._front = front
        if front:
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
                self._tell_of_program(status)

    def _tell_of_program(self, status: int) -> None:
        if os.WIFSTOPPED(status):
            if self._front and os.WSTOPSIG(status) == signal.SIGTSTP:
                self._channel.send(b"suspended")
            return
        self._program = 0
        code = os.waitstatus_to_exitcode(status)
        self._channel.send(f"ended {code if code >= 0 else KILLED - code}".encode())


def _become(command: tuple[str, ...], environment: Mapping[str, str], *, front: bool) -> NoReturn:
    try:
        os.setpgid(0, 0)
        if front:
            with suppress(OSError):
                os.tcsetpgrp(0, os.getpgrp())
        for number in _RESTORED:
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(command[0], command, environment)  # noqa: S606  (to run it is what we are for)
    except OSError as error:
        found = _exists(command[0], environment)
        why = error.strerror if found else "not found"
        os.write(2, os.fsencode(f"fairwarning: cannot run {command[0]}: {why}\n"))
        os._exit(NOT_EXECUTABLE if found else NOT_FOUND)
    finally:
        os._exit(NOT_EXECUTABLE)


def _exists(name: str, environment: Mapping[str, str]) -> bool:
    folders = [""] if "/" in name else os.get_exec_path(environment)
    return any(os.access(Path(folder, name), os.F_OK) for folder in folders)
