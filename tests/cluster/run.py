"""One seed: a cluster, clients, blows; then calm, and a judgement."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import psycopg

from fairwarning.core.commands import Approve
from fairwarning.store.postgres.store import PostgresStore
from tests.cluster import witness
from tests.cluster.acts import acts
from tests.cluster.cluster import Cluster, Nursery
from tests.cluster.fire import LEASE_SECONDS, blows, strike
from tests.cluster.judge import judge, kept
from tests.cluster.load import Load
from tests.cluster.plants import plant_sql
from tests.cluster.record import Record
from tests.cluster.worker import Setting
from tests.sim.violations import Violation, must

CLIENTS = 8
FIRE_SECONDS = 2.0
STALENESS_SECONDS = 0.5  # shorter than a pause
SETTLING_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a seed came to, for those who read along."""

    seed: int
    commands: int
    reads: int
    unavailable: int
    lost: int
    batches: int
    impacts: int
    repeated: int  # impacts that were begun more than once
    lives: int
    late: float  # the latest start of an event, in seconds past NotBefore
    seconds: float

    def __str__(self) -> str:
        return (
            f"seed {self.seed}: {self.lives} lives, {self.commands} commands ({self.lost} without "
            f"an answer), {self.reads} documents ({self.unavailable} unavailable), "
            f"{self.batches} batches, {self.impacts} impacts ({self.repeated} handed over again), "
            f"started at most {self.late:.1f} s late, {self.seconds:.1f} s"
        )


async def prepare(url: str, *bugs: str) -> None:
    """Make the tables, with these bugs, and have them watched."""
    store = PostgresStore(url)
    await store.open()
    await store.close()
    for bug in bugs:
        plant_sql(bug, url)
    witness.install(url)


async def run(
    seed: int,
    url: str,
    nursery: Nursery,
    folder: Path,
    settling_seconds: float = SETTLING_SECONDS,
) -> Report:
    """One seed on a database that is prepared; raises `Violation`, and says how to repeat it."""
    began = time.monotonic()
    try:
        report = await _run(seed, url, nursery, folder, settling_seconds)
    except BaseException as error:
        error.add_note(f"repeat: .venv/bin/python -m tests.cluster {seed}")
        raise
    return Report(seed=seed, seconds=time.monotonic() - began, **report)


async def _run(
    seed: int, url: str, nursery: Nursery, folder: Path, settling_seconds: float
) -> dict[str, Any]:
    setting = Setting("", url, str(folder), LEASE_SECONDS, STALENESS_SECONDS)
    late: Violation | None = None
    async with Cluster(nursery, setting) as cluster:
        load = Load(cluster, Random(seed))
        await load.begin()
        await fire(load, url, Random(f"blows {seed}"))
        try:
            await calm(load, url, settling_seconds)
        except Violation as violation:
            late = violation  # and perhaps something worse is the reason
    record = Record()
    batches, tables = witness.look(url)
    for batch in batches:
        record.committed(batch)
    done = acts(setting.acts)
    judge(record, load.history, done, staleness_seconds=STALENESS_SECONDS)
    kept(record, tables)
    if late:
        raise late
    record.settled()
    return {
        "commands": len(load.history.asked),
        "reads": len(load.history.reads),
        "unavailable": load.history.unavailable,
        "lost": sum(one.outcome == "lost" for one in load.history.asked),
        "batches": record.commits,
        "impacts": len(record.began),
        "repeated": sum(one.word == "begun" for one in done) - len(record.began),
        "lives": len(cluster.lives),
        "late": record.latest_start,
    }


async def fire(load: Load, url: str, random: Random) -> None:
    """Clients ask while blows fall."""
    over = asyncio.Event()
    plan = blows(random, len(load.cluster.present), FIRE_SECONDS)
    async with asyncio.TaskGroup() as group:
        for _ in range(CLIENTS):
            group.create_task(load.client(over))
        least = asyncio.create_task(asyncio.sleep(FIRE_SECONDS))
        await strike(load.cluster, url, plan)
        await least
        over.set()


async def calm(load: Load, url: str, seconds: float) -> None:
    """Faults have stopped: everything ends, all show the same, and nobody had to give up."""

    async def approve(scopes: list[str]) -> None:
        for scope in scopes:
            await load.poll(scope)
            if events := load.scheduled.get(scope):
                await load.submit(Approve(scope=scope, events=tuple(events)))

    await settle(url, seconds, approve)
    await agree(load, seconds)
    for life in load.cluster.lives:
        said = life.said()
        must("Traceback" not in said and "CRITICAL" not in said, "IS4", f"{life.name}: {said}")


async def settle(
    url: str, seconds: float, approve: Callable[[list[str]], Awaitable[None]] | None = None
) -> None:
    """IL6: wait until nothing is under way any more; what waits for an approval may get it."""
    give_up = time.monotonic() + seconds
    with psycopg.connect(url, autocommit=True) as connection:
        while left := await asyncio.to_thread(witness.under_way, connection):
            must(time.monotonic() < give_up, "IL6", f"still under way: {left}")
            if approve:
                await approve([name for kind, name in left if kind == "Scope"])
            await asyncio.sleep(0.05)


async def agree(load: Load, seconds: float) -> None:
    """X2: in the end, all processes show the same."""

    async def differ() -> bool:
        for scope in load.scopes:
            answers = [await life.ask(poll=scope) for life in load.cluster.present]
            if any({**one, "n": 0} != {**answers[0], "n": 0} for one in answers):
                return True
        return False

    give_up = time.monotonic() + seconds
    while await differ():
        must(time.monotonic() < give_up, "X2", "processes show different documents for good")
        await asyncio.sleep(0.02)
