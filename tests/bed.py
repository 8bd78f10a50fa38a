"""A fleet on a test bed: memory store, virtual clock, simulated machines; plain calls, no `await`.

Tests build one in their body:  `with Bed() as bed: bed.do(Restart(...))`.
"""

import asyncio
import json
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from fairwarning.core.commands import Command, CreateScope
from fairwarning.core.errors import FairwarningError
from fairwarning.core.model import (
    Event,
    Impact,
    Machine,
    Operation,
    Rollout,
    Rules,
    ScaleSet,
    Scope,
    ScopeKind,
)
from fairwarning.machines.driver import Driver, Report
from fairwarning.machines.simulated import SimulatedDriver
from fairwarning.service.clock import VirtualClock
from fairwarning.service.fleet import Fleet
from fairwarning.store.memory import MemoryStore
from fairwarning.store.store import Entry, Store

NOON = 1_767_960_000.0  # Fri, 09 Jan 2026 12:00:00 GMT
NEWEST = "2020-07-01"


class RecordingDriver:
    """The simulated driver, remembering what it was given; `fail` makes the next ones fail."""

    def __init__(self, inner: Driver) -> None:
        self.inner = inner
        self.given: list[Impact] = []
        self.fail = ""

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Note it, then let the simulation take its time."""
        self.given.append(impact)
        error = self.fail
        self.inner.carry_out(impact, lambda one, why: report(one, error or why))


class Bed:
    """A fleet and the means to drive and watch it."""

    def __init__(self, store: Store | None = None, start: float = NOON) -> None:
        self.store: Store = store or MemoryStore()
        self._start = start
        self._runner = asyncio.Runner()

    def __enter__(self) -> Self:
        self._up()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._runner.run(self.fleet.stop())
        finally:
            self._runner.close()

    def _up(self) -> None:
        self.clock = VirtualClock(self._start)

        async def start() -> Fleet:
            self.driver = RecordingDriver(
                SimulatedDriver(
                    lambda seconds, call: self.clock.call_at(self.clock.now() + seconds, call)
                )
            )
            fleet = Fleet(self.store, self.clock, self.driver)
            await fleet.start()
            return fleet

        self.fleet = self._runner.run(start())

    def restart(self) -> None:
        """Stop the service cleanly and start another on the same data."""
        self._runner.run(self.fleet.stop())
        self._up()

    # --- Doing ---

    def do(self, command: Command) -> Operation | None:
        """Submit; the operation it made, if any. Refusals are raised."""
        return self._runner.run(self._do(command))

    async def _do(self, command: Command) -> Operation | None:
        operation = await self.fleet.submit(command)
        await self.fleet.settled()
        return operation

    def refusal(self, command: Command) -> FairwarningError:
        """Submit what must be refused; the refusal."""
        try:
            self.do(command)
        except FairwarningError as error:
            return error
        raise AssertionError(f"{command} was not refused")

    def advance(self, seconds: float) -> None:
        """Let virtual time pass."""
        self._runner.run(self.fleet.advance(seconds))

    # --- Seeing ---

    def poll(self, scope: str, version: str = NEWEST) -> dict[str, Any]:
        """What a machine of the scope reads; as any GET, it enables the feature."""
        published = self._runner.run(self.fleet.poll(scope))
        document: dict[str, Any] = json.loads(published.body(version))
        return document

    def scope(self, name: str) -> Scope:
        """A scope that must exist."""
        found = self._runner.run(self.fleet.read(Scope, name))
        assert found is not None, f"no scope {name}"
        return found

    def exists(self, name: str) -> bool:
        """Whether there is such a scope."""
        return self._runner.run(self.fleet.read(Scope, name)) is not None

    def events(self, scope: str) -> list[Event]:
        """Its events, in order of creation."""
        return list(self.scope(scope).events.values())

    def machines(self, scope: str) -> Mapping[str, Machine]:
        """Its machines by name."""
        return self.scope(scope).machines

    def operation(self, name: str) -> Operation:
        """An operation that must exist."""
        found = self._runner.run(self.fleet.read(Operation, name))
        assert found is not None, f"no operation {name}"
        return found

    def scale_set(self, name: str) -> ScaleSet | None:
        """A scale set, if there."""
        return self._runner.run(self.fleet.read(ScaleSet, name))

    def rollout(self, name: str) -> Rollout:
        """A rollout that must exist."""
        found = self._runner.run(self.fleet.read(Rollout, name))
        assert found is not None, f"no rollout {name}"
        return found

    def journal(self, event: str = "") -> list[Entry]:
        """The journal, or what it tells of one event."""
        return self._runner.run(self.store.journal(event=event, limit=100_000))

    # --- The usual fleet ---

    def availability_set(
        self,
        name: str = "av",
        machines: int = 6,
        domains: int = 3,
        **rules: Any,  # noqa: ANN401  (any setting)
    ) -> None:
        """Machines `{name}0`.. dealt out over update domains, on hosts of their own."""
        self.do(
            CreateScope(
                scope=name,
                kind=ScopeKind.AVAILABILITY_SET,
                machines=tuple(
                    Machine(name=f"{name}{n}", update_domain=n % domains, host=f"{name}-host{n}")
                    for n in range(machines)
                ),
                rules=Rules(**rules),
            )
        )

    def standalone(self, name: str = "vm", **settings: Any) -> None:  # noqa: ANN401  (any field)
        """One machine on its own, scope and machine of the same name."""
        rules = settings.pop("rules", Rules())
        self.do(
            CreateScope(
                scope=name,
                kind=ScopeKind.STANDALONE,
                machines=(Machine(name=name, **settings),),
                rules=rules,
            )
        )
