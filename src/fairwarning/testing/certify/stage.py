"""Where a trap is played: a service of its own, in this process, and the program as its machine.

All that is known of the program is what can be seen from outside: whether it runs, what it asked
for, and what it approved.
"""

import asyncio
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
from fairwarning.core.decision import FactType
from fairwarning.core.model import Scope
from fairwarning.guest.endpoint import VARIABLE
from fairwarning.server.wiring import ServerOptions, ServerProcess
from fairwarning.service.clock import RealClock
from fairwarning.service.config import fleet_file
from fairwarning.testing.certify.steps import ME

SET = "web"
SCOPE = "web/0"
_FLEET = """
[metadata]
requests_per_second = 5

[[scale_set]]
name = "web"
capacity = 3
update_domains = 1
terminate_notice = "PT5M"
priority = "{priority}"
"""
_ANYWHERE = ("127.0.0.1", 0)
_LOOK_SECONDS = 0.02
_SHOWN_CHARACTERS = 200
_PAGE = 1000


class TrapFailed(Exception):
    """The program did what a good handler does not; the text says what was seen."""


@dataclass(slots=True)
class ObservedEvent:
    """An event, and what became of it; moments are of the real, steady clock."""

    id: str
    resources: tuple[str, ...]
    at: float
    asked: int  # how often the program had asked by then
    read_at: float | None = None
    approved_by: str = ""
    approved_at: float | None = None
    started: bool = False
    over: bool = False


@dataclass(slots=True)
class Observations:
    """What was seen of the program so far."""

    polls: int = 0
    held: int = 0  # requests that wait for something new, just now
    approvals: int = 0
    faults: int = 0
    refused: Counter[str] = field(default_factory=Counter)  # requests, by reason
    disabled: int = 0
    events: dict[str, ObservedEvent] = field(default_factory=dict)  # by id
    lines: int = 0  # of the journal


class CertifyEnvironment:
    """A service, three machines, and the program that is one of them."""

    def __init__(
        self, command: Sequence[str], folder: Path, trap: str = "", *, spot: bool = False
    ) -> None:
        self._command = tuple(command)
        self._folder = folder
        self._trap = trap
        fleet = fleet_file.read(_FLEET.format(priority="Spot" if spot else "Regular"))
        self._local = ServerProcess(
            ServerOptions(
                data=folder / "data",
                fleet=fleet,
                memory=True,
                virtual=True,
                metadata=_ANYWHERE,
                console=_ANYWHERE,
                arm=_ANYWHERE,
            )
        )
        self.fleet = self._local.fleet
        self.seen = Observations()
        self.rules: list[Callable[[], None]] = []
        """Called at every look; they raise Trapped."""
        self._program: subprocess.Popen[bytes] | None = None
        self._operations = 0

    @asynccontextmanager
    async def open(self) -> AsyncIterator["CertifyEnvironment"]:
        """Everything is up inside, and nothing is left after."""
        self._folder.mkdir(0o700)
        (self._folder / "state").mkdir()
        async with self._local.running():
            # The program compares NotBefore with its own clock.
            await self.fleet.advance(max(0.0, RealClock().now() - self.fleet.clock.now()))
            await self.fleet.run_clock(1.0)
            try:
                yield self
            finally:
                await self.lose_power()  # it has been through worse

    # --- The program ---

    @property
    def is_on(self) -> bool:
        """Whether the machine has power."""
        return self._program is not None

    def start(self) -> None:
        """Start it, inside its machine, which is off."""
        words = [sys.executable, "-m", "fairwarning", "exec", "--quiet"]
        words += ["--data", str(self._folder / "data"), ME, "--", *self._command]
        with self._output.open("ab") as output:
            self._program = subprocess.Popen(  # noqa: S603  (to run it is what we are for)
                words,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for us, and we end it
            )

    @property
    def _output(self) -> Path:
        return self._folder / "output"

    def _environment(self) -> dict[str, str]:
        """A folder of its own for what must outlive a reboot: many programs run side by side."""
        kept = {name: value for name, value in os.environ.items() if name != VARIABLE}
        return kept | {
            "STATE_DIRECTORY": str(self._folder / "state"),
            "FAIRWARNING_TRAP": self._trap,
        }

    async def lose_power(self) -> None:
        """The program, and all it has started, is no more."""
        program, self._program = self._program, None
        if program is None:
            return
        program.kill()
        while program.poll() is None:  # noqa: ASYNC110  (nobody tells us)
            await asyncio.sleep(_LOOK_SECONDS)

    def code(self) -> int | None:
        """With what the program ended; None while it runs, or while its machine is off."""
        return self._program.poll() if self._program else None

    def last_words(self) -> str:
        """The end of what it printed."""
        lines = self._output.read_text("utf-8", "replace").strip().splitlines()
        line = "".join(one for one in lines[-1] if one.isprintable()) if lines else ""
        return line.strip()[-_SHOWN_CHARACTERS:]

    # --- What happens ---

    def operation(self) -> str:
        """A name for an operation."""
        self._operations += 1
        return f"{self._trap}-{self._operations}"

    async def announce(self, command: Command, operation: str) -> ObservedEvent:
        """Submit what makes an event; the event."""
        await self._look()
        asked = self.seen.polls
        await self.fleet.submit(command)
        scope = await self.scope()
        (event,) = (one for one in scope.events.values() if one.operation == operation)
        told = ObservedEvent(event.id, event.resources, time.monotonic(), asked)
        self.seen.events[event.id] = told
        return told

    async def scope(self) -> Scope:
        """The machines and their events as they are now."""
        found = await self.fleet.reader.read(Scope, SCOPE)
        assert found is not None
        return found

    # --- What is seen ---

    async def until(
        self, condition: Callable[[], bool], seconds: float, *, ends: bool = False
    ) -> bool:
        """Look until it is so; False if it is not by then. Unless `ends`, the program runs on."""
        deadline = time.monotonic() + seconds
        while True:
            await self._look()
            if condition():
                return True
            for rule in self.rules:
                rule()
            if not ends:
                self._check_running()
            if time.monotonic() >= deadline:
                return False
            await asyncio.sleep(_LOOK_SECONDS)

    def _check_running(self) -> None:
        code = self.code()
        if code is None:
            return
        asked = "" if self.seen.polls or self.seen.faults else " before it asked for anything"
        words = self.last_words()
        raise TrapFailed(f"it ended with exit code {code}{asked}" + (f": {words}" if words else ""))

    async def _look(self) -> None:
        seen, counts = self.seen, self._local.server.counts
        self.fleet.polls.collect()
        seen.polls, seen.held, seen.approvals = counts.polls, counts.held, counts.approvals
        seen.faults = sum(counts.faults.values())
        seen.refused = Counter(counts.refused)
        now = time.monotonic()
        while entries := await self.fleet.store.journal(after=seen.lines, limit=_PAGE):
            seen.lines = entries[-1].number
            for entry in entries:
                self._take(entry.line.fact.type, entry.line.fact.event, entry.line.actor, now)
        for told in seen.events.values():
            if told.read_at is None and seen.polls > told.asked:
                told.read_at = now

    def _take(self, did: FactType, event: str, actor: str, now: float) -> None:
        if did is FactType.DISABLED:
            self.seen.disabled += 1
        told = self.seen.events.get(event)
        if told is None:
            return
        if did is FactType.APPROVED:
            told.approved_by, told.approved_at = actor, now
        elif did is FactType.STARTED:
            told.started = True
        elif did in {FactType.ENDED, FactType.CANCELLED, FactType.LAPSED}:
            told.over = True
