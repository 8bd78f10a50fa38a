"""A harness for the process driver: a service with nothing else, and programs as its machines."""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from fairwarning.core.errors import NotFound, Refused
from fairwarning.core.model import Impact, ImpactKind, Machine, Power
from fairwarning.machines.driver import Report
from fairwarning.machines.process.driver import ProcessDriver
from fairwarning.service.clock import VirtualClock
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until_async
from tests.machines.harness import with_harness

EXEC = (sys.executable, "-c", "from fairwarning.cli.commands.exec import command; command()")
NONE = ("--isolation", "none")

MACHINES = {
    "web_0": ("web", Machine(name="web_0", host_name="web000000")),
    "web_1": ("web", Machine(name="web_1", host_name="web000001")),
    "off": ("web", Machine(name="off", power=Power.DEALLOCATED)),
}

# Logs its start, counts as long as it runs, and logs that it was asked to end.
COUNTER = """
trap 'echo ended >> {out}/log; exit 0' TERM
echo started >> {out}/log
while :; do echo >> {out}/count; sleep 0.01; done
"""


class FallbackDriver:
    """Takes the impacts on machines without a program, and reports them as successful.

    With `hold`, it does so when `finish` is called.
    """

    def __init__(self) -> None:
        self.executed: list[str] = []
        self.hold = False
        self._held: list[Callable[[], None]] = []

    def carry_out(self, impact: Impact, report: Report) -> None:
        self.executed.append(impact.id)
        if self.hold:
            self._held.append(lambda: report(impact, ""))
        else:
            report(impact, "")

    def finish(self) -> None:
        """Report the impacts that were held."""
        while self._held:
            self._held.pop(0)()


class MachineListeners:
    """Answers each request with the scope and machine of the listener it came through.

    A connection is accepted and answered in one step. An asyncio server that is closed may drop a
    connection that it has just accepted, and the program would wait for ever.
    """

    def __init__(self) -> None:
        self.open: list[str] = []

    async def __call__(
        self, listener: socket.socket, scope: str, machine: str
    ) -> Callable[[], None]:
        loop = asyncio.get_running_loop()
        listener.setblocking(False)
        loop.add_reader(listener, _answer, listener, f"{scope}/{machine}")
        self.open.append(machine)

        def close() -> None:
            self.open.remove(machine)
            loop.remove_reader(listener)
            listener.close()

        return close


def _answer(listener: socket.socket, text: str) -> None:
    connection, _ = listener.accept()
    connection.settimeout(LIMIT_SECONDS)
    with connection, suppress(ConnectionError):
        request = b""
        while b"\r\n\r\n" not in request and (more := connection.recv(65536)):
            request += more
        head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(text)}\r\nConnection: close\r\n"
        connection.sendall(f"{head}\r\n{text}".encode())


class ProcessHarness:
    """A service in a folder. A test may stop it and start another any number of times."""

    def __init__(self, folder: Path, boot_seconds: int) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.data.mkdir()
        self.programs: list[subprocess.Popen[bytes]] = []
        self.fallback = FallbackDriver()
        self.listeners = MachineListeners()
        self.reports: dict[str, list[str]] = {}
        self.driver: ProcessDriver
        self.clock = VirtualClock()
        self.boot_seconds = boot_seconds
        self.boots = 0  # begun, if they take time
        self._impacts = 0

    async def start_service(self) -> None:
        self.driver = self.make_driver()
        await self.driver.listen()

    async def replace_driver(self) -> None:
        """Stop the service; the next one does not listen yet."""
        await self.driver.close()
        self.driver = self.make_driver()

    def make_driver(self) -> ProcessDriver:
        return ProcessDriver(
            self.fallback,
            self._find,
            self.listeners,
            self.data,
            later=self._later,
            boot_seconds=self.boot_seconds,
        )

    def _later(self, seconds: float, call: Callable[[], None]) -> None:
        self.boots += 1
        self.clock.call_at(self.clock.now() + seconds, call)

    @property
    def temporary(self) -> Path:
        return self.data / "machines" / "web_0" / "tmp"

    async def _find(self, name: str) -> tuple[str, Machine]:
        if name == "shy":
            raise Refused("Ambiguous", "shy is in two scopes; rename one")
        if name not in MACHINES:
            raise NotFound("MachineNotFound", f"no machine is called {name}")
        return MACHINES[name]

    def start(
        self,
        *command: str,
        machine: str = "web_0",
        options: Iterable[str] = (),
        before: Iterable[str] = (),
        **settings: object,
    ) -> subprocess.Popen[bytes]:
        words = [*before, *EXEC, "--data", str(self.data), *options, machine, "--", *command]
        number = len(self.programs)
        with (
            (self.folder / f"out{number}").open("wb") as out,
            (self.folder / f"err{number}").open("wb") as err,
        ):
            defaults = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
            program = subprocess.Popen(words, **defaults | settings)  # type: ignore[call-overload]
        self.programs.append(program)
        return program  # type: ignore[no-any-return]

    async def start_counter(self, **settings: object) -> subprocess.Popen[bytes]:
        """Start a program that counts, and wait until it does."""
        number = len(self.programs)
        (self.folder / str(number)).mkdir()
        script = COUNTER.format(out=self.folder / str(number))
        program = self.start("sh", "-c", script, **settings)  # type: ignore[arg-type]
        await wait_until_async(lambda: self.count(number) > 0, "it counts")
        return program

    def out(self, number: int = 0) -> str:
        return (self.folder / f"out{number}").read_text()

    def err(self, number: int = 0) -> str:
        return (self.folder / f"err{number}").read_text()

    def messages(self, number: int = 0) -> list[str]:
        """Return the messages of exec about its machine."""
        lines = self.err(number).splitlines()
        return [line for line in lines if line.startswith("fairwarning: ")]

    def log(self, number: int = 0) -> list[str]:
        path = self.folder / str(number) / "log"
        return path.read_text().split() if path.exists() else []

    def count(self, number: int = 0) -> int:
        path = self.folder / str(number) / "count"
        return path.stat().st_size if path.exists() else 0

    async def logged(self, *lines: str) -> None:
        """Wait until the first counting program has logged exactly these lines."""
        await wait_until_async(lambda: self.log() == [*lines], lambda: f"{lines}: {self.log()}")

    async def started(self, times: int) -> None:
        """Wait until the first counting program has started so often."""
        await wait_until_async(lambda: self.log().count("started") == times, "it starts again")

    async def printed(self, text: str, number: int = 0) -> None:
        """Wait until a program has printed exactly this text."""
        await wait_until_async(lambda: self.out(number) == text, lambda: repr(self.out(number)))

    async def exit_code(self, program: subprocess.Popen[bytes]) -> int:
        await wait_until_async(lambda: program.poll() is not None, "it ends")
        assert program.returncode is not None
        return program.returncode

    async def output(self, *command: str, **how: Any) -> str:  # noqa: ANN401  (of `start`)
        """Run a program to its end, which must be a success; return what it printed."""
        number = len(self.programs)
        program = self.start(*command, **how)
        assert await self.exit_code(program) == 0, self.err(number)
        return self.out(number)

    def submit(self, kind: str, machine: str = "web_0", seconds: int = -1, again: str = "") -> str:
        """Hand an impact to the driver and return its id."""
        self._impacts += 1
        impact = Impact(
            id=again or f"impact {self._impacts}",
            scope=MACHINES[machine][0],
            machine=machine,
            kind=ImpactKind(kind),
            operation="operation",
            duration_seconds=seconds,
        )
        self.driver.carry_out(impact, self._report)
        return impact.id

    def _report(self, impact: Impact, error: str) -> None:
        self.reports.setdefault(impact.id, []).append(error)

    async def result(self, impact: str) -> str:
        """Wait for the report of an impact and return its error."""
        await wait_until_async(lambda: impact in self.reports, f"{impact} is over")
        (error,) = self.reports[impact]
        return error

    def processes_inside(self) -> list[int]:
        """Return every process inside the machines."""
        return _mentioning(str(self.data), "environ")

    def remaining_processes(self) -> list[int]:
        """Return every process of the machines, inside and outside."""
        return self.processes_inside() + _mentioning(str(self.data), "cmdline")

    async def close(self) -> None:
        await self.driver.close()
        for program in self.programs:
            if program.poll() is None:
                program.send_signal(signal.SIGKILL)
        for program in self.programs:
            program.wait(LIMIT_SECONDS)
        await wait_until_async(lambda: not self.remaining_processes(), "no process remains")
        assert not self.listeners.open


def _mentioning(text: str, where: str) -> list[int]:
    pids = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # the process has just ended
            if entry.name.isdigit() and text.encode() in (entry / where).read_bytes():
                pids.append(int(entry.name))
    return pids


@asynccontextmanager
async def process_harness(folder: Path, *, boot_seconds: int = 0) -> AsyncIterator[ProcessHarness]:
    """Provide a running service and clean up after it."""
    harness = ProcessHarness(folder, boot_seconds)
    await harness.start_service()
    try:
        yield harness
    finally:
        await harness.close()


with_process_harness = partial(with_harness, process_harness)
