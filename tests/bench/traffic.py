"""Commands that load a fleet and restore its scopes."""

import asyncio
from collections.abc import Callable, Sequence
from itertools import count, cycle
from random import Random, getrandbits

from fairwarning.core.commands import Approve, Cancel, ReportImpact, Restart
from fairwarning.core.model import Impact, Scope
from fairwarning.machines.driver import Report
from fairwarning.service.fleet import Fleet
from fairwarning.service.writer.committer import CACHED_ENTITIES
from fairwarning.store.sqlite import SQLiteStore
from tests.bench import fleets
from tests.bench.fleets import SCOPE, machine_name, serving
from tests.bench.generate import store_of
from tests.bench.measure import Sample, Stopwatch

WORDS = "Restart, approve, report its end, restart, cancel"

_MACHINES = 10  # per scope that take part
_WAVE = 8  # scopes between two time checks
_ROAMED = 50  # scopes in a wave of one submitter


class Traffic:
    """Submitters and driver; the end of an impact is also an awaited command."""

    def __init__(self) -> None:
        self._numbers = count()
        self._begun: dict[str, Impact] = {}  # by scope
        self._events: dict[str, str] = {}  # the newest, by scope

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Keep the impact until it is reported."""
        self._begun[impact.scope] = impact

    async def load(self, fleet: Fleet, shares: Sequence[Sequence[str]], seconds: float) -> Sample:
        """Run one submitter per share of the scopes, for some seconds."""
        self._follow(fleet)
        watch = Stopwatch()

        async def submit(share: Sequence[str]) -> int:
            done = 0
            for part in cycle([share[at : at + _WAVE] for at in range(0, len(share), _WAVE)]):
                done += await self._wave(fleet, part)
                if watch.passed() >= seconds:
                    break
            return done

        done = await asyncio.gather(*(submit(share) for share in shares))
        return watch.sample(sum(done))

    async def roam(self, fleet: Fleet, pick: Callable[[], Sequence[str]], seconds: float) -> Sample:
        """Run one submitter over randomly picked scopes, wave by wave."""
        self._follow(fleet)
        await self._wave(fleet, pick()[:1])
        watch = Stopwatch()
        done = await self._wave(fleet, pick())
        while watch.passed() < seconds:
            done += await self._wave(fleet, pick())
        return watch.sample(done)

    async def _wave(self, fleet: Fleet, scopes: Sequence[str]) -> int:
        """Submit commands one after the other, each on the next scope; return how many."""
        machine = next(self._numbers) % _MACHINES
        events = [await self._restart(fleet, scope, machine) for scope in scopes]
        for scope, event in zip(scopes, events, strict=True):
            await fleet.submit(Approve(scope=scope, events=(event,), actor="machine"))
        for scope in scopes:
            impact = self._begun.pop(scope)
            await fleet.submit(ReportImpact(scope=scope, machine=impact.machine, impact=impact.id))
        events = [await self._restart(fleet, scope, machine) for scope in scopes]
        for scope, event in zip(scopes, events, strict=True):
            await fleet.submit(Cancel(scope=scope, event=event))
        return 5 * len(scopes)

    async def _restart(self, fleet: Fleet, scope: str, machine: int) -> str:
        """Restart a machine; return the id of its event."""
        operation = f"{getrandbits(128):032x}"  # as random as the ids of Azure's tools
        name = machine_name(scope, machine)
        await fleet.submit(Restart(scope=scope, operation=operation, machines=(name,)))
        return self._events[scope]

    def _follow(self, fleet: Fleet) -> None:
        if self._keep_event not in fleet.publisher.followers:
            fleet.publisher.followers.append(self._keep_event)

    def _keep_event(self, name: str, scope: Scope | None) -> None:
        if scope and scope.events:
            self._events[name] = list(scope.events)[-1]


def shares(scopes: Sequence[str], submitters: int) -> list[Sequence[str]]:
    """Divide the scopes among the submitters."""
    return [scopes[first::submitters] for first in range(min(submitters, len(scopes)))]


async def age(path: str, machines: int, history: int) -> bool:
    """Give a fleet a history of this many commands."""
    scopes = fleets.scope_names(machines // SCOPE)
    traffic = Traffic()
    async with serving(SQLiteStore(path), traffic) as fleet:
        await fleets.enable(fleet, scopes)
        while history > 0:
            history -= (await traffic.load(fleet, shares(scopes, fleets.SUBMITTERS), 0.2)).count
    return True


async def commands(
    data: str,
    machines: int,
    seconds: float,
    *,
    submitters: int = 1,
    among: int | None = None,
    cached: int = CACHED_ENTITIES,
) -> dict[str, float]:
    """The cost of a command on some scopes of a fleet, or on all; one submitter roams at random."""
    scopes = fleets.scope_names(machines // SCOPE)[:among]
    generator = Random(1)

    def pick() -> list[str]:
        return generator.sample(scopes, min(_ROAMED, len(scopes)))

    traffic = Traffic()
    async with serving(store_of(data), traffic, cached) as fleet:
        await fleets.enable(fleet, scopes)
        if submitters == 1:
            sample = await traffic.roam(fleet, pick, seconds)
        else:
            sample = await traffic.load(fleet, shares(scopes, submitters), seconds)
    return sample.plain()
