"""A service that has nothing but a process driver, and programs that are its machines."""

import asyncio
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from fairwarning.core.errors import NotFound, Refused
from fairwarning.core.model import Impact, ImpactKind, Machine
from fairwarning.machines.driver import Report
from fairwarning.machines.process.driver import ProcessDriver
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until_async

EXEC = (sys.executable, "-c", "from fairwarning.cli.exec import command; command()")

MACHINES = {
    "web_0": ("web", Machine(name="web_0", host_name="web000000")),
    "web_1": ("web", Machine(name="web_1", host_name="web000001")),
}

# Says that it has started, then counts as long as it runs; says that it was asked to end.
COUNTER = """
trap 'echo ended >> {out}/log; exit 0' TERM
echo started >> {out}/log
while :; do echo >> {out}/count; sleep 0.01; done
"""


async def steady(read: Callable[[], object]) -> bool:
    """Whether something stands still for longer than any of our programs ever does."""
    before = read()
    await asyncio.sleep(0.3)
    return read() == before


class FallbackDriver:
    """Takes the impacts on machines without a program, and reports them as done."""

    def __init__(self) -> None:
        self.given: list[str] = []

    def carry_out(self, impact: Impact, report: Report) -> None:
        self.given.append(impact.id)
        report(impact, "")


class MachineListeners:
    """Answers each request with the scope and machine whose listener it came through.

    A connection is accepted and answered in one step. An asyncio server may forget one that it has
    accepted when it is closed a moment later, and the program would wait for ever.
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


class ProcessDriverHarness:
    """A service in a folder. It may end and another come, as often as a test likes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.data.mkdir()
        self.programs: list[subprocess.Popen[bytes]] = []
        self.fallback = FallbackDriver()
        self.listeners = MachineListeners()
        self.reports: dict[str, list[str]] = {}
        self.driver: ProcessDriver
        self._impacts = 0

    async def begin(self) -> None:
        """The service starts."""
        self.driver = self.make_driver()
        await self.driver.listen()

    def make_driver(self) -> ProcessDriver:
        return ProcessDriver(self.fallback, self._find, self.listeners, self.data)

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
        """A program, as that machine."""
        words = [*before, *EXEC, "--data", str(self.data), *options, machine, "--", *command]
        number = len(self.programs)
        with (
            (self.folder / f"out{number}").open("wb") as out,
            (self.folder / f"err{number}").open("wb") as err,
        ):
            usual = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
            started = subprocess.Popen(words, **usual | settings)  # type: ignore[call-overload]
        self.programs.append(started)
        return started  # type: ignore[no-any-return]

    async def counting(self, **settings: object) -> subprocess.Popen[bytes]:
        """A program that runs and counts."""
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

    def said(self, number: int = 0) -> list[str]:
        """What exec said of its machine."""
        lines = self.err(number).splitlines()
        return [line for line in lines if line.startswith("fairwarning: ")]

    def log(self, number: int = 0) -> list[str]:
        """What a counting program said of itself."""
        path = self.folder / str(number) / "log"
        return path.read_text().split() if path.exists() else []

    def count(self, number: int = 0) -> int:
        path = self.folder / str(number) / "count"
        return path.stat().st_size if path.exists() else 0

    async def code(self, program: subprocess.Popen[bytes]) -> int:
        """Its exit code, once it has ended."""
        await wait_until_async(lambda: program.poll() is not None, "it ends")
        assert program.returncode is not None
        return program.returncode

    def hit(self, kind: str, machine: str = "web_0", seconds: int = -1, again: str = "") -> str:
        """Let an impact happen; its id."""
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

    async def over(self, impact: str) -> str:
        """How an impact went, once it is over."""
        await wait_until_async(lambda: impact in self.reports, f"{impact} is over")
        (error,) = self.reports[impact]
        return error

    def inhabitants(self) -> list[int]:
        """Every process inside the machines."""
        return _mentioning(str(self.data), "environ")

    def left(self) -> list[int]:
        """Every process that has to do with the machines at all."""
        return self.inhabitants() + _mentioning(str(self.data), "cmdline")

    async def end(self) -> None:
        """The service ends, and after it whatever the test has left."""
        await self.driver.close()
        for program in self.programs:
            if program.poll() is None:
                program.send_signal(signal.SIGKILL)
        for program in self.programs:
            program.wait(LIMIT_SECONDS)
        await wait_until_async(lambda: not self.left(), "nothing is left behind")
        assert not self.listeners.open


def _mentioning(text: str, where: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):  # they come and go
            if entry.name.isdigit() and text.encode() in (entry / where).read_bytes():
                found.append(int(entry.name))
    return found


@asynccontextmanager
async def process_harness(folder: Path) -> AsyncIterator[ProcessDriverHarness]:
    """A service that runs, and is cleaned up after."""
    made = ProcessDriverHarness(folder)
    await made.begin()
    try:
        yield made
    finally:
        await made.end()
