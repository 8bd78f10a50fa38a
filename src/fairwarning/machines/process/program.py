"""The service's view of attached programs, and of the impacts that they execute.

The programs of a machine share namespaces: the first one creates them, the others join. Marker
files tell the next service which machines have programs.
"""

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from fairwarning.core.errors import Unavailable
from fairwarning.core.model import Impact, ImpactKind
from fairwarning.machines.driver import Report, announced_seconds
from fairwarning.machines.process.channel import close_all
from fairwarning.machines.process.control import ControlConnection

Key = tuple[str, str]
"""Identifies a machine: its scope's id and its name."""

_CREATE_SECONDS = 30.0  # how long a program may take to create its namespaces


# After these impacts the program is gone, so a disconnect means success.
_ENDING = {ImpactKind.EVICT, ImpactKind.DELETE, ImpactKind.STOP, ImpactKind.DEALLOCATE}


class PendingImpact:
    """An impact in progress: finished when each program has reported or disconnected."""

    def __init__(
        self,
        impact: Impact,
        report: Report,
        programs: Iterable["AttachedProgram"],
        *,
        hand_over: Callable[[Impact, Report], None],
        boot_later: Callable[[Callable[[], None]], None],
    ) -> None:
        """`hand_over` gets the impact if all programs have ended by themselves before it."""
        self.impact = impact
        self._report = report
        self._pending = set(programs)
        self._stopped: set[AttachedProgram] = set()
        self._hand_over = hand_over
        self._boot_later = boot_later
        self._booting = False
        self._executed = False
        self._error = ""

    def settle(self, program: "AttachedProgram", error: str) -> None:
        """Record that a program has finished. The impact fails with the first error."""
        if program not in self._pending:
            return
        self._executed = True
        self._error = self._error or error
        self._discard(program)

    def leave(self, program: "AttachedProgram") -> None:
        """Record that a program has ended before the impact reached it."""
        self._discard(program)

    def stopped(self, program: "AttachedProgram") -> None:
        """Record that a program is down. The machine boots when all of them are."""
        self._stopped.add(program)
        self._boot_if_down()

    def _discard(self, program: "AttachedProgram") -> None:
        self._pending.discard(program)
        if self._pending:
            self._boot_if_down()
        elif self._executed:
            self._report(self.impact, self._error)
        else:
            self._hand_over(self.impact, self._report)

    def _boot_if_down(self) -> None:
        if self._pending <= self._stopped and not self._booting:
            self._booting = True
            self._boot_later(self._boot)

    def _boot(self) -> None:
        for program in self._pending:
            program.boot(self.impact.id)


class Namespaces:
    """Descriptors of the namespaces that a program runs in; this process holds them."""

    def __init__(self) -> None:
        self.known = asyncio.Event()  # the descriptors, or that there will be none
        self.descriptors: list[int] = []

    def set(self, descriptors: list[int]) -> None:
        """Replace the descriptors."""
        self.discard()
        self.descriptors = descriptors

    def discard(self) -> None:
        """Close the descriptors."""
        close_all(self.descriptors)
        self.descriptors = []
        self.known.set()


class AttachedProgram:
    """A program that acts as a machine; several may act as the same one."""

    def __init__(self, key: Key, connection: ControlConnection) -> None:
        self.key = key
        self.namespaces = Namespaces()
        self._connection = connection
        self._stop_serving: Callable[[], None] | None = None
        self._impacts: dict[str, PendingImpact] = {}
        self._ended = False  # by itself

    def set_endpoint(self, stop_serving: Callable[[], None]) -> None:
        """Note that the program's endpoint is served; stop serving an earlier one."""
        self.close_endpoint()
        self._stop_serving = stop_serving

    def close_endpoint(self) -> None:
        """Stop serving the program's endpoint."""
        stop, self._stop_serving = self._stop_serving, None
        if stop is not None:
            stop()

    def order(self, pending: PendingImpact) -> None:
        """Send an impact to the program."""
        impact = pending.impact
        self._impacts[impact.id] = pending
        self._connection.send(
            {"order": impact.id, "do": impact.kind.value, "seconds": announced_seconds(impact)}
        )

    def stopped(self, impact: str) -> bool:
        """Handle the report that the program is down; return whether the impact is known."""
        pending = self._impacts.get(impact)
        if pending is None:
            return False
        pending.stopped(self)
        return True

    def boot(self, impact: str) -> None:
        """Let the program start again."""
        self._connection.send({"boot": impact})

    def done(self, impact: str, error: str) -> None:
        """Handle the program's report that an impact is finished."""
        pending = self._impacts.pop(impact, None)
        if pending is not None:
            pending.settle(self, error)

    def ended(self) -> None:
        """Note that the program has ended by itself."""
        self._ended = True

    def disconnected(self) -> None:
        """Settle all impacts of the program, which has disconnected."""
        impacts, self._impacts = self._impacts, {}
        for pending in impacts.values():
            if pending.impact.kind in _ENDING:
                pending.settle(self, "")
            elif self._ended:
                pending.leave(self)
            else:
                pending.settle(self, f"the program of {self.key[1]} disconnected")


class SharedNamespaces:
    """The programs of each machine, in the order in which they asked for its namespaces."""

    def __init__(self) -> None:
        self._programs: dict[Key, list[AttachedProgram]] = {}

    @contextmanager
    def member(self, program: AttachedProgram) -> Iterator[None]:
        """Count a program among those of its machine."""
        programs = self._programs.setdefault(program.key, [])
        programs.append(program)
        try:
            yield
        finally:
            program.namespaces.discard()
            programs.remove(program)
            if not programs:
                self._programs.pop(program.key, None)

    async def to_join(self, program: AttachedProgram) -> Sequence[int]:
        """Return the descriptors of the namespaces to join; none if the program creates them.

        A program waits for those before it, so that two that start at once share namespaces.
        Raises Unavailable if one of them takes too long.
        """
        programs = self._programs[program.key]
        for other in programs[: programs.index(program)]:
            try:
                await asyncio.wait_for(other.namespaces.known.wait(), _CREATE_SECONDS)
            except TimeoutError:
                text = f"another program is still starting in {program.key[1]}; try again"
                raise Unavailable("Starting", text) from None
            if other.namespaces.descriptors:
                return other.namespaces.descriptors
        return ()


class Markers:
    """A small file for each machine that has programs, with their number.

    The files outlive the service, as the programs do. If a file cannot be written or read, the next
    service does not wait for the programs of that machine; there is no other effect.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def read(self) -> Mapping[Key, int]:
        """Return the number of programs by machine, as the last service left it."""
        counts: dict[Key, int] = {}
        for path in sorted(self._folder.glob("*.json")):
            with suppress(OSError, ValueError, KeyError, TypeError):
                marker = json.loads(path.read_text())
                counts[str(marker["scope"]), str(marker["machine"])] = int(marker["programs"])
        return counts

    def write(self, key: Key, programs: int) -> None:
        """Write the number of programs of a machine; if it is 0, remove the file."""
        scope, machine = key
        path = self._folder / (sha256(f"{scope}\0{machine}".encode()).hexdigest() + ".json")
        with suppress(OSError):
            if not programs:
                path.unlink(missing_ok=True)
                return
            self._folder.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps({"scope": scope, "machine": machine, "programs": programs}))
