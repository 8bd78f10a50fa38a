"""The environment of a trap: a service in this process, and the program inside one machine.

The program is observed only from outside: whether it runs, what it reads, approves and prints.
"""

import asyncio
import logging
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fairwarning.core.commands import Command
from fairwarning.core.decision import EVENT_ENDED, Fact, FactType
from fairwarning.core.model import Scope
from fairwarning.core.printable import printable
from fairwarning.guest.endpoint import VARIABLE
from fairwarning.metadata.answers import Refusal, RequestRefused
from fairwarning.metadata.callers import Caller
from fairwarning.metadata.events import EventsResource
from fairwarning.metadata.server import MetadataServer
from fairwarning.metadata.validation import ParsedRequest
from fairwarning.server.options import ServerOptions
from fairwarning.server.wiring import ServerProcess
from fairwarning.service.clock import RealClock
from fairwarning.service.config import fleet_file
from fairwarning.service.fleet import Fleet

log = logging.getLogger(__name__)

SET = "web"
SCOPE = "web/0"
ME = "web_1"
"""The machine that the program runs in; its host name is web000001."""
OTHER = "web_0"
_FLEET = """
[metadata]
requests_per_second = 5

[driver]
boot_seconds = 0

[[scale_set]]
name = "web"
capacity = 11
update_domains = 1
"""
_REGULAR = 'terminate_notice = "PT5M"'
_SPOT = 'priority = "Spot"'  # which can have no notice of a delete
_FAILURES = (
    Refusal(429, "fault", "Too many requests; try again.", "Retry-After: 1\r\n"),
    Refusal(500, "fault", "Internal error; try again."),
)
_ANY_PORT = ("127.0.0.1", 0)
_CHECK_SECONDS = 0.02
_KILL_SECONDS = 60.0  # a killed program ends within a second, unless a device holds it
_SHOWN_CHARACTERS = 200
_OUTPUT_BYTES = 4000  # of a report, the last ones
_OUTPUT_LIMIT_BYTES = 8 * 1024 * 1024  # on disk; then the file begins anew
_PAGE = 1000


class TrapFailed(Exception):
    """The program behaved wrongly; the text says how."""


@dataclass(slots=True)
class ObservedEvent:
    """An event and its progress; times are of the monotonic clock."""

    id: str
    type: str
    resources: tuple[str, ...]
    at: float
    polls: int  # polls of the program before the event was scheduled
    approvals: int  # accepted before the event was scheduled
    refused: int  # approvals that were refused before the event was scheduled
    read_at: float | None = None  # when the program was shown the event
    approved_by: str = ""
    approved_at: float | None = None
    started: bool = False
    carried_out: bool = False  # on the machine of the program
    over: bool = False


@dataclass(slots=True)
class Observations:
    """The observations of the program so far."""

    polls: int = 0
    held: int = 0  # long polls that wait now
    approvals: int = 0
    faults: int = 0
    refused: Counter[str] = field(default_factory=Counter)  # requests, by reason
    refused_approvals: list[str] = field(default_factory=list)  # the reasons
    failed_approvals: list[int] = field(default_factory=list)  # the statuses
    disabled: int = 0
    events: dict[str, ObservedEvent] = field(default_factory=dict)  # by id
    lines: int = 0  # of the journal, read so far


class FailingApprovals(EventsResource):
    """Answers approvals with failures, if asked to; fault rules would affect polls too."""

    def __init__(self, server: MetadataServer, fleet: Fleet, failed: list[int]) -> None:
        super().__init__(fleet, server.counts, server.callers.active)
        self._failed = failed
        self.failures: list[Refusal] = []

    async def approve(self, caller: Caller, parsed: ParsedRequest, body: bytes) -> bytes:
        """Fail with the next failure; approve if there is none."""
        if not self.failures:
            return await super().approve(caller, parsed, body)
        failure = self.failures.pop(0)
        self._failed.append(failure.status)
        raise RequestRefused(failure)


class CertifyEnvironment:
    """A service, eleven machines, and the program that is one of them."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        trap: str = "",
        *,
        spot: bool = False,
        exec_options: Sequence[str] = (),
    ) -> None:
        """`exec_options` are those of `fairwarning exec`."""
        self._command = tuple(command)
        self._exec_options = tuple(exec_options)
        self._folder = folder
        self._trap = trap
        fleet = fleet_file.read(_FLEET + (_SPOT if spot else _REGULAR))
        self._service = ServerProcess(
            ServerOptions(
                data=folder / "data",
                fleet=fleet,
                memory=True,
                virtual=True,
                metadata=_ANY_PORT,
                console=_ANY_PORT,
                arm=_ANY_PORT,
            )
        )
        self.fleet = self._service.fleet
        self.seen = Observations()
        failed = self.seen.failed_approvals
        self._events = FailingApprovals(self._service.server, self.fleet, failed)
        self._service.server.events = self._events
        self.rules: list[Callable[[], None]] = []
        """Called at each observation; they raise `TrapFailed`."""
        self._program: subprocess.Popen[bytes] | None = None
        self._operations = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator["CertifyEnvironment"]:
        """Run the service inside the context; stop the program at the end."""
        self._folder.mkdir(0o700)
        (self._folder / "state").mkdir()
        async with self._service.running():
            # The program compares NotBefore with the real clock.
            await self.fleet.advance(max(0.0, RealClock().now() - self.fleet.clock.now()))
            await self.fleet.run_clock(1.0)
            try:
                yield self
            finally:
                await self.lose_power()

    # --- The program ---

    @property
    def is_on(self) -> bool:
        """Whether the machine has power."""
        return self._program is not None

    def start(self) -> None:
        """Start the program inside its machine, which is off."""
        words = [sys.executable, "-m", "fairwarning", "exec", "--quiet", *self._exec_options]
        words += ["--data", str(self._folder / "data"), ME, "--", *self._command]
        with self._output.open("ab") as output:
            self._program = subprocess.Popen(  # noqa: S603  (the program under test)
                words,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C must not reach it; `lose_power` ends it
            )

    @property
    def _output(self) -> Path:
        return self._folder / "output"

    def _environment(self) -> dict[str, str]:
        """Return the environment, with a state folder for each of the parallel programs."""
        inherited = {name: value for name, value in os.environ.items() if name != VARIABLE}
        return inherited | {
            "STATE_DIRECTORY": str(self._folder / "state"),
            "FAIRWARNING_TRAP": self._trap,
        }

    async def lose_power(self) -> None:
        """Kill the program and everything it has started."""
        program, self._program = self._program, None
        if program is None:
            return
        program.kill()
        deadline = time.monotonic() + _KILL_SECONDS
        while program.poll() is None or self._is_attached():
            if time.monotonic() > deadline:
                text = "%s: the program still runs %g s after SIGKILL; certify goes on without it"
                log.warning(text, self._trap, _KILL_SECONDS)
                return
            await asyncio.sleep(_CHECK_SECONDS)

    def _is_attached(self) -> bool:
        """Whether the program still acts as its machine; it disconnects when it has ended."""
        programs = self._service.programs
        return programs is not None and programs.is_attached(SCOPE, ME)

    def code(self) -> int | None:
        """Return the exit code of the program; None while it runs or its machine is off."""
        return self._program.poll() if self._program else None

    def last_output(self) -> str:
        """Return the last line that the program printed."""
        lines = self.output().splitlines()
        return lines[-1].strip()[-_SHOWN_CHARACTERS:] if lines else ""

    def _limit_output(self) -> None:
        """Drop what the program printed before it fills the disk; it appends to the file."""
        if self._output.exists() and self._output.stat().st_size > _OUTPUT_LIMIT_BYTES:
            os.truncate(self._output, 0)

    def output(self) -> str:
        """Return the end of what the program printed."""
        with self._output.open("rb") as output:
            output.seek(max(0, output.seek(0, os.SEEK_END) - _OUTPUT_BYTES))
            text = output.read(_OUTPUT_BYTES).decode("utf-8", "replace")
        return printable(text.strip(), keep="\n")

    # --- Events ---

    def operation(self) -> str:
        """Return a new operation id."""
        self._operations += 1
        return f"{self._trap}-{self._operations}"

    async def announce(self, command: Command, operation: str) -> ObservedEvent:
        """Submit a command that schedules an event; return the event."""
        await self._observe()
        seen = self.seen
        before = seen.polls, seen.approvals, len(seen.refused_approvals)
        await self.fleet.submit(command)
        scope = await self.scope()
        (event,) = (event for event in scope.events.values() if event.operation == operation)
        observed = ObservedEvent(
            event.id, str(event.type), event.resources, time.monotonic(), *before
        )
        seen.events[event.id] = observed
        return observed

    def fail_approvals(self) -> None:
        """Fail the next approvals of the program, each with another status."""
        self._events.failures = list(_FAILURES)

    async def scope(self) -> Scope:
        """Return the current state of the scope."""
        scope = await self.fleet.reader.read(Scope, SCOPE)
        assert scope is not None
        return scope

    # --- Observations ---

    async def until(
        self, condition: Callable[[], bool], seconds: float, *, ends: bool = False
    ) -> bool:
        """Wait until the condition holds; return False after `seconds`.

        Raise `TrapFailed` if the program breaks a rule or, unless `ends`, exits.
        """
        deadline = time.monotonic() + seconds
        while True:
            await self._observe()
            if condition():
                return True
            for rule in self.rules:
                rule()
            if not ends:
                self._check_running()
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(_CHECK_SECONDS)

    def _check_running(self) -> None:
        code = self.code()
        if code is None:
            return
        when = "" if self.seen.polls or self.seen.faults else " before its first poll"
        output = self.last_output()
        raise TrapFailed(f"exited with code {code}{when}" + (f": {output}" if output else ""))

    async def _observe(self) -> None:
        self._limit_output()
        seen, counts = self.seen, self._service.server.counts
        self.fleet.polls.collect()
        self.fleet.deliveries.write()
        seen.polls, seen.held, seen.approvals = counts.polls, counts.held, counts.approvals
        seen.faults = sum(counts.faults.values())
        seen.refused = Counter(counts.refused)
        now = time.monotonic()
        while entries := await self.fleet.store.journal(after=seen.lines, limit=_PAGE):
            seen.lines = entries[-1].number
            for entry in entries:
                self._apply(entry.line.fact, entry.line.actor, now)

    def _apply(self, fact: Fact, actor: str, now: float) -> None:
        if fact.type is FactType.DISABLED:
            self.seen.disabled += 1
        elif fact.type is FactType.APPROVAL_REFUSED:
            self.seen.refused_approvals.append(fact.detail)
        event = self.seen.events.get(fact.event)
        if event is None:
            return
        if fact.type in {FactType.DELIVERED, FactType.APPROVED}:
            event.read_at = event.read_at or now
        if fact.type is FactType.APPROVED:
            event.approved_by, event.approved_at = actor, now
        elif fact.type is FactType.STARTED:
            event.started = True
        elif fact.type is FactType.IMPACT_CARRIED_OUT and ME in fact.machines:
            event.carried_out = True
        elif fact.type in EVENT_ENDED:
            event.over = True
