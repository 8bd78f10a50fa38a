"""Faults drawn from a seed: processes are killed, paused beyond their lease, or lose connections.

Each fault lasts for a while; at the end all processes run again.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from random import Random

import psycopg

from fairwarning.service.failpoints import NAMES
from tests.cluster.cluster import Cluster, NoAnswer, WorkerProcess

LEASE_SECONDS = 0.4  # a process that cannot renew it in this time connects anew
FAILPOINTS = tuple(name for name in NAMES if not name.startswith(("start.", "stop.")))
DISCONNECT = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'fairwarning'
ORDER BY random() LIMIT %s
"""


class FaultKind(Enum):
    """The kinds of faults."""

    KILL = "kill"
    PAUSE = "pause"
    DISCONNECT = "disconnect"  # the database closes random connections
    CUT = "cut"  # a process loses its connections while commits wait for a lock


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one process."""

    kind: FaultKind
    at: float
    process: int
    seconds: float  # until the process is started again or resumed
    failpoint: str  # empty: at any point


def draw_faults(random: Random, size: int, seconds: float, lease: float) -> list[Fault]:
    """Return a kill, a pause, a cut, and up to two more faults of any kind."""
    more = random.choices(list(FaultKind), k=random.randrange(3))
    return [
        Fault(
            kind=kind,
            at=random.uniform(0.1, seconds),
            process=random.randrange(size),
            seconds=lease * random.uniform(*((1.2, 2.5) if kind is FaultKind.PAUSE else (0, 1))),
            failpoint=random.choice(FAILPOINTS) if random.random() < 0.6 else "",
        )
        for kind in (FaultKind.KILL, FaultKind.PAUSE, FaultKind.CUT, *more)
    ]


async def inject(cluster: Cluster, url: str, faults: list[Fault]) -> None:
    """Inject faults; return when all processes run again."""
    locks = [asyncio.Lock() for _ in cluster.processes]  # one fault of a process at a time
    async with asyncio.TaskGroup() as group:
        for fault in faults:
            group.create_task(_inject(cluster, url, fault, locks[fault.process]))


async def _inject(cluster: Cluster, url: str, fault: Fault, lock: asyncio.Lock) -> None:
    await asyncio.sleep(fault.at)
    async with lock:
        process = cluster.processes[fault.process]
        if fault.kind is FaultKind.KILL:
            await process.kill(fault.failpoint)
            await asyncio.sleep(fault.seconds)
            await cluster.start(fault.process)
        elif fault.kind is FaultKind.PAUSE:
            await process.pause(fault.failpoint)
            await asyncio.sleep(fault.seconds)
            await process.resume()
        elif fault.kind is FaultKind.CUT:
            await _cut(process, url, fault.seconds)
        else:
            await asyncio.to_thread(_disconnect, url, fault.process + 1)


async def _cut(process: WorkerProcess, url: str, seconds: float) -> None:
    """Let commits and claims wait, cut the connections of a process, and let them go on."""
    async with await psycopg.AsyncConnection.connect(url) as connection:
        await connection.execute(  # in the order of a commit: else each waits for the other
            "LOCK TABLE fairwarning.impact, fairwarning.head IN EXCLUSIVE MODE"
        )
        await asyncio.sleep(seconds / 2)
        with suppress(NoAnswer):
            await process.request(cut=True)
        await asyncio.sleep(seconds / 2)


def _disconnect(url: str, count: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(DISCONNECT, (count,))
