"""The service's view of attached programs and of the impacts that they execute."""

import asyncio
from collections.abc import Callable, Iterable
from typing import NamedTuple

from fairwarning.core.model import Impact, ImpactKind
from fairwarning.machines.driver import Report, announced_seconds
from fairwarning.machines.process.channel import close_all
from fairwarning.machines.process.control import ControlConnection

Key = tuple[str, str]
"""Identifies a machine: its scope's id and its name."""


class ImpactCallbacks(NamedTuple):
    """What the driver does for an impact in progress."""

    hand_over: Callable[[Impact, Report], None]
    """Executes an impact before which all programs have ended by themselves."""
    boot_later: Callable[[Callable[[], None]], None]
    """Calls back when a machine has booted."""


# After these impacts the program is gone, so a disconnect means success.
_ENDING = {ImpactKind.EVICT, ImpactKind.DELETE, ImpactKind.STOP, ImpactKind.DEALLOCATE}


class PendingImpact:
    """An impact in progress: finished when each program has reported or disconnected."""

    def __init__(
        self,
        impact: Impact,
        report: Report,
        programs: Iterable["AttachedProgram"],
        callbacks: ImpactCallbacks,
    ) -> None:
        self.impact = impact
        self._report = report
        self._pending = set(programs)
        self._stopped: set[AttachedProgram] = set()
        self._callbacks = callbacks
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
            self._callbacks.hand_over(self.impact, self._report)

    def _boot_if_down(self) -> None:
        if self._pending <= self._stopped and not self._booting:
            self._booting = True
            self._callbacks.boot_later(self._boot)

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
