"""Measurements in a new process: `python -m tests.bench.probes NAME JSON` prints JSON."""

import gc
import json
import os
import random
import sys
from collections.abc import Callable, Mapping
from typing import Any

from fairwarning.service.config import fleet_file
from fairwarning.service.writer.committer import CACHED_ENTITIES
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Store
from tests.bench import (
    armclients,
    arrivals,
    clients,
    fleets,
    many_machines,
    pgprobes,
    reading,
    two_processes,
)
from tests.bench.fleets import SCOPE, Never, serving
from tests.bench.generator import generate, store_of
from tests.bench.processes import resident_bytes
from tests.bench.traffic import Traffic, shares

_WAVE = 50  # scopes


async def build(data: str, machines: int, of_scope: int) -> bool:
    """Create a fleet in a folder or a database."""
    await generate(store_of(data), machines, of_scope)
    return True


async def build_resources(path: str, machines: int, sets: int, instances: int) -> bool:
    """Create standalone machines that poll, and scale sets, with their resources."""
    alone = [f"vm_{number}" for number in range(machines)]
    entries = [f'[[machine]]\nname = "{name}"\n' for name in alone]
    entries += [f'[[scale_set]]\nname = "set{n}"\ncapacity = {instances}\n' for n in range(sets)]
    async with serving(SQLiteStore(path), Never()) as fleet:
        await fleet_file.apply(fleet_file.read("".join(entries)), fleet.submit)
        await fleets.enable(fleet, alone)
    return True


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
    generator = random.Random(1)

    def pick() -> list[str]:
        return generator.sample(scopes, min(_WAVE, len(scopes)))

    traffic = Traffic()
    async with serving(store_of(data), traffic, cached) as fleet:
        await fleets.enable(fleet, scopes)
        if submitters == 1:
            sample = await traffic.roam(fleet, pick, seconds)
        else:
            sample = await traffic.load(fleet, shares(scopes, submitters), seconds)
    return sample.plain()


async def at_rest(path: str) -> int:
    """Resident bytes of an idle process with an open fleet."""
    return await _resident(SQLiteStore(path), 0)


async def in_memory(machines: int) -> int:
    """Resident bytes of a process with a fleet in memory."""
    return await _resident(MemoryStore(), machines)


async def _resident(store: Store, machines: int) -> int:
    async with serving(store, Never()) as fleet:
        await fleets.make(fleet, fleets.scope_names(machines // SCOPE), SCOPE)
        gc.collect()
        return resident_bytes([os.getpid()])


PROBES: dict[str, Callable[..., Any]] = {
    probe.__name__: probe
    for probe in (
        *(build, build_resources, age, commands, at_rest, in_memory),
        *(clients.flood, clients.hold, armclients.ask_over_tls, armclients.list_over_tls),
        *(many_machines.one_by_one, many_machines.each_once, many_machines.together),
        *(pgprobes.drive, pgprobes.row_by_row, pgprobes.record, pgprobes.notified),
        *(reading.write_lines, reading.timed, two_processes.seen_through_both, arrivals.arrive),
    )
}


def run(what: str, how: Mapping[str, Any]) -> Any:  # noqa: ANN401  (each says what it answers)
    """Run a probe in this process."""
    with fleets.runner() as loop:
        return loop.run(PROBES[what](**how))


def main() -> None:
    """Run a probe and print its result."""
    what, how = sys.argv[1:]
    print(json.dumps(run(what, json.loads(how))))


if __name__ == "__main__":
    main()
