"""A cloud in the test's own process, and real agents that run against it.

The cloud's time is virtual, but begins at the real one: agents hold NotBefore against their clock.
"""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from fairwarning.core.commands import Approve, Command
from fairwarning.core.model import Operation
from fairwarning.guest.agent.journal import Journal
from fairwarning.guest.agent.plan import Entry
from fairwarning.machines.simulated import SimulatedDriver
from fairwarning.metadata.identity import by_local_address
from fairwarning.metadata.server import Server
from fairwarning.service.clock import VirtualClock
from fairwarning.service.faults import Fault, FaultKind
from fairwarning.service.fleet import Fleet
from tests.fixtures.endpoint import EndpointHarness

ROOT = Path(__file__).parents[2]
LONG = 20.0  # seconds after which what should have happened will not
EVERY = 0.05  # seconds between an agent's requests, so that tests are quick


def until(condition: Callable[[], object], what: Callable[[], str] = str) -> None:
    """Return once this holds; fail, and say how things are, if it does not in time."""
    ends = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < ends, what()
        time.sleep(0.01)


class Cloud(EndpointHarness):
    """Our endpoint; it knows the logs that there were when an approval came."""

    def __init__(self) -> None:
        super().__init__()
        self.approvals: list[tuple[str, tuple[str, ...]]] = []
        """Who approved what."""
        self.witness: Callable[[], Any] = lambda: None
        self.witnessed: list[Any] = []
        """What the witness said at each approval."""

    async def _up(self) -> None:
        self.clock = VirtualClock(time.time())
        driver = SimulatedDriver(lambda s, call: self.clock.call_at(self.clock.now() + s, call))
        self.fleet = Fleet(self._store, self.clock, driver)
        self._submit = self.fleet.submit
        setattr(self.fleet, "submit", self._heard)  # noqa: B010  (mypy minds the plain way)
        await self.fleet.start()
        self.server = Server(self.fleet, self._cloud, self._settings)
        self.port = await self._listen(by_local_address)

    async def _heard(self, command: Command) -> Operation | None:
        if isinstance(command, Approve):
            self.approvals.append((command.actor, command.events))
            self.witnessed.append(self.witness())
        return await self._submit(command)

    def url(self, machine: str) -> str:
        """Where this machine's agent asks."""
        host, port = self.address(machine)
        return f"http://{host}:{port}"

    def on(self, scope: str, machines: int = 1) -> None:
        """An availability set that has asked already, and so gets notice."""
        self.make(scope, machines)
        self.get(f"{scope}_0")

    def suffer(self, kind: FaultKind, **more: Any) -> None:  # noqa: ANN401  (of a fault)
        """Every request meets this."""
        self.call(lambda: self.fleet.faults.put(Fault(kind=kind, **more)))

    def go_away(self) -> None:
        """Nobody listens any more. A request that is held would be spared, so it is cut off."""
        self.suffer(FaultKind.RESET)
        for connection in tuple(self.server.connections):
            self.call(connection.abort)

    def heal(self) -> None:
        """No faults any more."""
        self.call(self.fleet.faults.clear)

    def finish(self, scope: str) -> None:
        """Let time pass until nothing is planned in a scope any more."""
        for _ in range(100):
            if not self.scope(scope).events:
                return
            self.advance(30)
        raise AssertionError("it is never over")


@dataclass
class Home:
    """What one machine has on its disk: configuration, journal, and what its hooks wrote."""

    folder: Path
    endpoint: str
    name: str = ""
    lines: list[str] = field(default_factory=list)
    hooks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "log").touch()

    @property
    def state(self) -> Path:
        """The folder of the journal."""
        return self.folder / "state"

    def hook(self, name: str, phase: str, script: str = "", more: str = "") -> None:
        """A hook that notes its begin and its end, and does something between them."""
        log = shlex.quote(str(self.folder / "log"))
        said = f'{name} $FAIRWARNING_PHASE $FAIRWARNING_EVENT_ID $FAIRWARNING_CANCELLED"'
        command = f'echo "+ {said} >> {log}; {script or "true"}; echo "- {said} >> {log}'
        words = json.dumps(["/bin/sh", "-c", command])
        self.hooks.append(
            f'[[hook]]\nname = "{name}"\nphase = "{phase}"\ncommand = {words}\n{more}\n'
        )

    def usual_hooks(self, drain: str = "") -> None:
        """One for each phase, and one that is not required."""
        self.hook("drain", "scheduled", drain)
        self.hook("note", "scheduled", "", "required = false")
        self.hook("flush", "started")
        self.hook("back", "over")

    def gate(self) -> str:
        """What a hook does to wait for `open_gate`."""
        gate = shlex.quote(str(self.folder / "gate"))
        return f"while [ ! -e {gate} ]; do sleep 0.02; done"

    def open_gate(self) -> None:
        """Let hooks that wait go on."""
        (self.folder / "gate").touch()

    def config(self) -> Path:
        """The file."""
        head = [f'endpoint = "{self.endpoint}"', f"state = {json.dumps(str(self.state))}"]
        if self.name:
            head.append(f'name = "{self.name}"')
        path = self.folder / "agent.toml"
        path.write_text("\n".join([*head, *self.lines, *self.hooks]), "utf-8")
        return path

    def log(self) -> list[str]:
        """What the hooks noted: `+ drain scheduled ID 0` at the begin, `-` at the end."""
        return (self.folder / "log").read_text("utf-8").splitlines()

    def ran(self, sign: str = "-") -> list[str]:
        """The hooks that ended (or began), by their names."""
        return [line.split()[1] for line in self.log() if line.startswith(sign)]

    def journal(self) -> list[Entry]:
        """What stands in the journal of events that are not forgotten."""
        from fairwarning.guest.agent.journal import _living  # noqa: PLC0415  (only looked at here)

        return _living(Journal(self.state)._read())

    def steps(self) -> list[str]:
        """The steps of it."""
        return [entry.step for entry in self.journal()]


class Running:
    """An agent that runs; killed at the end of the `with` block if it still does."""

    def __init__(self, home: Home, *words: str, **how: object) -> None:
        """`how` is what `runner` takes."""
        self.home = home
        self._said = (home.folder / "said").open("a+b")
        words = words or ("run", "--config", str(home.config()))
        self.process = subprocess.Popen(
            [
                sys.executable,
                *("-m", "tests.guest.runner", json.dumps({"every": EVERY, **how})),
                *("agent", *words),
            ],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=self._said,
        )

    def said(self) -> str:
        """What it told so far, with those before it."""
        return (self.home.folder / "said").read_text("utf-8", "replace")

    def until(self, condition: Callable[[], object]) -> None:
        """Wait for something, while it lives."""
        until(
            lambda: condition() or self.process.poll() is not None,
            lambda: f"{self.home.log()} {self.home.steps()}\n{self.said()}",
        )
        assert condition(), f"it ended with {self.process.returncode}: {self.said()}"

    def ended(self) -> int:
        """Its exit code; it has to end soon."""
        return self.process.wait(LONG)

    def kill(self) -> None:
        """As kill -9 does."""
        self.process.kill()
        self.process.wait(LONG)

    def stop(self) -> float:
        """Ask it to end; how long that took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(LONG)
        return time.monotonic() - began

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.process.poll() is None:
            self.kill()
        self._said.close()


def environment() -> dict[str, str]:
    """Ours, without what would send an agent elsewhere."""
    return {name: value for name, value in os.environ.items() if "FAIRWARNING" not in name}


def program(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """`fairwarning ...`, as it is, to its end."""
    return subprocess.run(
        [sys.executable, "-m", "fairwarning", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**environment(), **more},
        timeout=LONG,
    )


def free_ports(count: int) -> Sequence[int]:
    """Ports that nobody listens on just now."""
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    return ports


@contextmanager
def homes(cloud: Cloud, folder: Path, *machines: str) -> Iterator[list[Home]]:
    """A home for each machine; hooks that still wait are let go at the end."""
    made = [Home(folder / machine, cloud.url(machine)) for machine in machines]
    try:
        yield made
    finally:
        for home in made:
            home.open_gate()


def get(port: int, path: str) -> tuple[int, str, bytes]:
    """What an agent's own server says: status, content type, body."""
    connection = HTTPConnection("127.0.0.1", port, timeout=LONG)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.headers["Content-Type"], response.read()
    finally:
        connection.close()
