"""The process that the user started: it has the terminal and gets the user's signals.

It forks the supervisor, which stays outside the machine, then enters the machine's namespaces, if
it has any, and forks the init process. The user may suspend it; the supervisor goes on executing
impacts.
"""

import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import NoReturn

from fairwarning.core.errors import FairwarningError, NotFound, Refused
from fairwarning.machines.process import loopback, namespace, relay
from fairwarning.machines.process.channel import Channel, Words, close_all
from fairwarning.machines.process.init import InitProcess
from fairwarning.machines.process.link import check_service
from fairwarning.machines.process.machine_program import MachineProgram
from fairwarning.machines.process.processes import (
    GroupProcesses,
    MachineProcesses,
    NamespaceProcesses,
)
from fairwarning.machines.process.relay import HostPort
from fairwarning.machines.process.supervisor import run_supervisor

_FORWARDED = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_WAKE_BYTES = 64


def run(program: MachineProgram) -> int:
    """Run the program until it or the machine ends; return its exit code, as a shell would.

    Raises NotFound or Refused when the service does not accept it as that machine, Unavailable when
    no service is running, and FairwarningError when the system forbids namespaces.
    """
    check_service(program.folder)
    program.temporary.make()
    process = ForegroundProcess(program)
    try:
        return process.run()
    finally:
        process.close()


class ForegroundProcess:
    """The parent of the supervisor and the init process."""

    def __init__(self, program: MachineProgram) -> None:
        self._program = program
        self._has_terminal = _in_foreground()
        self._channel, supervisor_end = Channel.pair()
        self._init_channel, init_end = Channel.pair()

        def supervise() -> None:
            self._channel.close()
            self._init_channel.close()
            run_supervisor(program, supervisor_end, init_end)

        self._children = [_fork(supervise)]
        supervisor_end.close()
        init_end.close()

    def run(self) -> int:
        """Serve the supervisor until it reports the exit code."""
        wake = self._forward_signals()
        sources: tuple[Channel | socket.socket, ...] = (self._channel, wake)
        while True:
            ready, _, _ = select.select(sources, (), ())
            if wake in ready:
                for number in wake.recv(_WAKE_BYTES):
                    self._channel.send("signal", number)
            if self._channel in ready:
                words, descriptors = self._channel.receive()
                if words[:1] == ["exit"]:
                    return int(words[1])
                self._execute(words, descriptors)

    def close(self) -> None:
        """Kill both processes and everything inside the machine, and take the terminal back."""
        supervisor, *init = self._children
        os.kill(supervisor, signal.SIGKILL)
        os.waitpid(supervisor, 0)
        for child in init:
            # Without namespaces, the init process kills the others when the supervisor has ended.
            isolated = self._program.isolation.namespaces
            os.kill(child, signal.SIGKILL if isolated else signal.SIGCONT)
            os.waitpid(child, 0)
        if self._has_terminal:
            _take_terminal()

    def _execute(self, words: Words, descriptors: list[int]) -> None:
        match words:
            case ["enter"]:
                self._enter_machine(descriptors)
            case ["suspend"]:
                _take_terminal()
                os.kill(os.getpid(), signal.SIGSTOP)  # until the user resumes us
                self._channel.send("resumed", _in_foreground())
            case ["error", int(status), str(message)]:
                raise _error(status, message)
            case _:
                raise FairwarningError("SupervisorEnded", "the supervisor ended unexpectedly")

    def _enter_machine(self, namespaces: list[int]) -> None:
        if self._program.isolation.namespaces:
            self._enter_namespaces(namespaces)
            return
        self._give_notice()
        close_all(namespaces)
        with loopback.bind_endpoint() as endpoint:
            self._channel.send("machine", descriptors=[endpoint.fileno()])
            url = loopback.endpoint_url(endpoint)
        self._fork_init(GroupProcesses(), url)

    def _enter_namespaces(self, namespaces: list[int]) -> None:
        if namespaces:
            namespace.join(*namespaces)
            close_all(namespaces)
        else:
            namespace.create()
        self._warn_root()
        with ExitStack() as stack:
            endpoint = stack.enter_context(namespace.bind_endpoint())
            inside = stack.enter_context(namespace.opened())
            ports = [stack.enter_context(_listen_inside(p)) for p in self._program.forwarded]
            sockets = [port.fileno() for port in ports]
            self._channel.send("machine", descriptors=[endpoint.fileno(), *inside, *sockets])
        aliases = [port.alias for port in self._program.forwarded if port.alias]
        processes = NamespaceProcesses(self._program.temporary.path, aliases)
        self._fork_init(processes, namespace.ENDPOINT_URL)

    def _fork_init(self, processes: MachineProcesses, endpoint: str) -> None:
        program, channel = self._program, self._init_channel
        init = InitProcess(
            channel,
            program.command,
            program.environment(os.environ, endpoint),
            processes,
            foreground=self._has_terminal,
        )

        def run_init() -> None:
            self._channel.close()
            init.run()

        self._children.append(_fork(run_init))
        channel.close()

    def _give_notice(self) -> None:
        """Tell what a program without namespaces cannot show."""
        if not self._program.quiet:
            for line in self._program.isolation.notice(self._program.machine):
                sys.stderr.write(f"fairwarning: {line}\n")
            sys.stderr.flush()

    def _warn_root(self) -> None:
        """Tell a person that runs exec as root that it is no boundary."""
        if os.geteuid() == 0 and sys.stderr.isatty() and not self._program.quiet:
            machine = self._program.machine
            sys.stderr.write(f"fairwarning: a program that root runs can leave {machine}\n")

    def _forward_signals(self) -> socket.socket:
        """Return a socket from which the numbers of signals can be read."""
        wake_reader, wake_writer = socket.socketpair()
        for end in (wake_reader, wake_writer):
            end.settimeout(0)
        for number in _FORWARDED:
            if signal.getsignal(number) is not signal.SIG_IGN:  # as set by nohup
                signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # to take the terminal from the program
        signal.set_wakeup_fd(wake_writer.detach())
        return wake_reader


def _listen_inside(port: HostPort) -> socket.socket:
    address = port.address_inside
    namespace.add_address(address)
    try:
        return relay.listen(port, address)
    except OSError as error:
        text = f"cannot listen on {address}:{port.port}: {error.strerror}"
        raise FairwarningError("CannotListen", text) from error


def _fork(work: Callable[[], None]) -> int:
    child = os.fork()
    if child == 0:
        _run_child(work)
    return child


def _run_child(work: Callable[[], None]) -> NoReturn:
    try:
        work()
    except BaseException:  # noqa: BLE001  (the parent notices that the process has ended)
        traceback.print_exc()
    finally:
        os._exit(1)


def _error(status: int, message: str) -> FairwarningError:
    kinds = {kind.status: kind for kind in (NotFound, Refused)}
    return kinds.get(status, FairwarningError)("Refused", message)


def _in_foreground() -> bool:
    """Return whether this process has the terminal and so may pass it to the program."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


def _take_terminal() -> None:
    with suppress(OSError):
        os.tcsetpgrp(0, os.getpgrp())
