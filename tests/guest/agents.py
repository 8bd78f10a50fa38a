"""Real agents as processes, and an endpoint in the test's own process.

The endpoint's time is virtual, and starts at real time unless a test needs a wrong clock.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from fairwarning.core.commands import Approve, Command
from fairwarning.core.model import Operation
from fairwarning.guest.agent.actions import AgentJournalEntry
from fairwarning.guest.agent.journal import AgentJournal
from fairwarning.service.faults import FaultKind, FaultRule
from fairwarning.service.fleet import Fleet
from tests.fixtures.endpoint import EndpointHarness
from tests.fixtures.forked import ForkedProgram
from tests.fixtures.programs import ROOT
from tests.fixtures.service import run_command
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

_PRINT_SECONDS = 1.0  # for an agent to print what its threads do, once it hangs
EVERY = 0.05  # seconds between an agent's requests, to keep tests fast


class AgentEndpoint(EndpointHarness):
    """Our endpoint; it records approvals and what a test observes at each."""

    def __init__(self, ahead_seconds: float = 0.0) -> None:
        super().__init__(start=time.time() + ahead_seconds)
        self.approvals: list[tuple[str, tuple[str, ...]]] = []
        """Each approval: the machine and the events."""
        self.observe: Callable[[], Any] = lambda: None
        """Called at each approval."""
        self.observed: list[Any] = []
        """The values that `observe` returned."""

    def _make_fleet(self) -> Fleet:
        fleet = super()._make_fleet()
        self._submit = fleet.submit
        setattr(fleet, "submit", self._record)  # noqa: B010  (mypy minds the plain way)
        return fleet

    async def _record(self, command: Command) -> Operation | None:
        if isinstance(command, Approve):
            self.approvals.append((command.actor, command.events))
            self.observed.append(self.observe())
        return await self._submit(command)

    def url(self, machine: str) -> str:
        """Return the endpoint URL of this machine's agent."""
        host, port = self.address(machine)
        return f"http://{host}:{port}"

    def make_enabled(self, scope: str, machines: int = 1) -> None:
        """Create an availability set with the feature enabled, so that it gets events."""
        self.make(scope, machines)
        self.get(f"{scope}_0")

    def put_fault(self, kind: FaultKind, **more: Any) -> None:  # noqa: ANN401  (of a fault)
        """Inject this fault into every request."""
        self.call(lambda: self.fleet.faults.put(FaultRule(kind=kind, **more)))

    def clear_faults(self) -> None:
        self.call(self.fleet.faults.clear)

    def finish(self, scope: str) -> None:
        """Advance time until a scope has no more events."""
        for _ in range(100):
            if not self.scope(scope).events:
                return
            self.advance(30)
        raise AssertionError("the events are never over")


@dataclass
class AgentFolder:
    """The files of one machine: configuration, journal, and the output of its hooks."""

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
        """Return a hook that logs its start and end, and runs a script in between."""
        log = shlex.quote(str(self.folder / "log"))
        output = f'{name} $FAIRWARNING_PHASE $FAIRWARNING_EVENT_ID $FAIRWARNING_CANCELLED"'
        command = f'echo "+ {output} >> {log}; {script or "true"}; echo "- {output} >> {log}'
        words = json.dumps(["/bin/sh", "-c", command])
        self.hooks.append(
            f'[[hook]]\nname = "{name}"\nphase = "{phase}"\ncommand = {words}\n{more}\n'
        )

    def usual_hooks(self, drain: str = "") -> None:
        """Return one hook per phase, and one that is not required."""
        self.hook("drain", "scheduled", drain)
        self.hook("note", "scheduled", "", "required = false")
        self.hook("flush", "started")
        self.hook("back", "over")

    def wait_script(self) -> str:
        """Return a script that waits for `release_hooks`, or until the folder is deleted."""
        folder, file = (shlex.quote(str(path)) for path in (self.folder, self.folder / "released"))
        return f"while [ -d {folder} ] && [ ! -e {file} ]; do sleep 0.02; done"

    def release_hooks(self) -> None:
        (self.folder / "released").touch()

    def config(self) -> Path:
        """Write the configuration file."""
        head = [f'endpoint = "{self.endpoint}"', f"state = {json.dumps(str(self.state))}"]
        if self.name:
            head.append(f'name = "{self.name}"')
        path = self.folder / "agent.toml"
        path.write_text("\n".join([*head, *self.lines, *self.hooks]), "utf-8")
        return path

    def log(self) -> list[str]:
        """Return the log of the hooks: `+ drain scheduled ID 0` at the start, `-` at the end."""
        return (self.folder / "log").read_text("utf-8").splitlines()

    def ran(self, sign: str = "-") -> list[str]:
        """Return the names of the hooks that ended (or started)."""
        return [line.split()[1] for line in self.log() if line.startswith(sign)]

    def journal(self) -> list[AgentJournalEntry]:
        """Return the journal entries of events not yet forgotten."""
        from fairwarning.guest.agent.journal import _current  # noqa: PLC0415  (only looked at here)

        return _current(AgentJournal(self.state)._read())

    def steps(self) -> list[str]:
        return [entry.step for entry in self.journal()]


class AgentProcess:
    """A running agent; killed at the end of the `with` block."""

    def __init__(self, home: AgentFolder, *words: str, fork: bool = True, **how: object) -> None:
        """Start an agent, as a fork or as a new Python process; `how` is passed to `runner`."""
        self.home = home
        self._output = (home.folder / "output").open("a+b")
        words = words or ("run", "--config", str(home.config()))
        runner = "tests.guest.runner", json.dumps({"every": EVERY, **how})
        start = ForkedProgram if fork else _start_python
        self.process = start(
            [sys.executable, "-m", *runner, "agent", *words], env=environment(), output=self._output
        )

    def output(self) -> str:
        """Return the output so far, including that of earlier agents."""
        return (self.home.folder / "output").read_text("utf-8", "replace")

    def wait_until(self, condition: Callable[[], object]) -> None:
        """Wait for a condition while the agent runs."""
        wait_until(lambda: condition() or self.process.poll() is not None, self._describe)
        assert condition(), f"the agent exited with {self.process.returncode}: {self.output()}"

    def _describe(self) -> str:
        """Return what the agent has done, and what its threads do now."""
        if hasattr(signal, "SIGUSR1"):  # Windows has none
            self.process.send_signal(signal.SIGUSR1)
            time.sleep(_PRINT_SECONDS)
        return f"{self.home.log()} {self.home.steps()}\n{self.output()}"

    def exit_code(self) -> int:
        return self.process.wait(LIMIT_SECONDS)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(LIMIT_SECONDS)

    def stop(self) -> float:
        """Stop the agent; return how long that took."""
        began = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(LIMIT_SECONDS)
        return time.monotonic() - began

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.kill()
        self._output.close()


def _start_python(
    command: list[str], *, env: dict[str, str], output: IO[bytes]
) -> subprocess.Popen[bytes]:
    nothing = subprocess.DEVNULL
    return subprocess.Popen(command, cwd=ROOT, env=env, stdin=nothing, stdout=output, stderr=output)


def environment() -> dict[str, str]:
    """Return our environment without variables that configure an agent."""
    return {name: value for name, value in os.environ.items() if "FAIRWARNING" not in name}


def run_agent_command(*words: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run `fairwarning ...` to its end, with only these settings."""
    return run_command(*words, cwd=ROOT, env={**environment(), **more})


@contextmanager
def one_machine(folder: Path, machines: int = 1) -> Iterator[tuple[AgentEndpoint, "AgentFolder"]]:
    """Create an enabled availability set `db`; yield the folder of its first machine."""
    with AgentEndpoint() as endpoint:
        endpoint.make_enabled("db", machines)
        with agent_folders(endpoint, folder, "db_0") as (home,):
            yield endpoint, home


@contextmanager
def agent_folders(
    cloud: AgentEndpoint, folder: Path, *machines: str
) -> Iterator[list[AgentFolder]]:
    """Create a folder for each machine; release waiting hooks at the end."""
    homes = [AgentFolder(folder / machine, cloud.url(machine)) for machine in machines]
    try:
        yield homes
    finally:
        for home in homes:
            home.release_hooks()
