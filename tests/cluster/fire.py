"""What happens to the processes, as a seed says: killed, paused past their lease, cut off.

Each for a while; then everybody is up again.
"""

import asyncio
from dataclasses import dataclass
from enum import Enum
from random import Random

import psycopg

from fairwarning.service.failpoints import NAMES
from tests.cluster.cluster import Cluster

LEASE_SECONDS = 0.4
PLACES = tuple(name for name in NAMES if not name.startswith(("start.", "stop.")))
HANG_UP = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'fairwarning'
ORDER BY random() LIMIT %s
"""


class Kind(Enum):
    """What may happen."""

    KILL = "kill"
    PAUSE = "pause"
    HANG_UP = "hang up"  # the database does, on whoever it happens to be


@dataclass(frozen=True, slots=True)
class Blow:
    """One thing that happens to one process."""

    kind: Kind
    at: float
    victim: int
    seconds: float  # until it is started again, or goes on
    where: str  # a failpoint; empty: wherever it is


def blows(random: Random, size: int, seconds: float) -> list[Blow]:
    """A kill, a pause, and up to two more of any kind."""
    more = random.choices(list(Kind), k=random.randrange(3))
    return [
        Blow(
            kind=kind,
            at=random.uniform(0.1, seconds),
            victim=random.randrange(size),
            seconds=LEASE_SECONDS * random.uniform(*((1.2, 2.5) if kind is Kind.PAUSE else (0, 1))),
            where=random.choice(PLACES) if random.random() < 0.6 else "",
        )
        for kind in (Kind.KILL, Kind.PAUSE, *more)
    ]


async def strike(cluster: Cluster, url: str, plan: list[Blow]) -> None:
    """Carry a plan out; return when everybody is up again."""
    struck = [asyncio.Lock() for _ in cluster.present]  # one thing at a time for each
    async with asyncio.TaskGroup() as group:
        for blow in plan:
            group.create_task(_strike(cluster, url, blow, struck[blow.victim]))


async def _strike(cluster: Cluster, url: str, blow: Blow, struck: asyncio.Lock) -> None:
    await asyncio.sleep(blow.at)
    async with struck:
        victim = cluster.present[blow.victim]
        if blow.kind is Kind.KILL:
            await victim.kill(blow.where)
            await asyncio.sleep(blow.seconds)
            await cluster.start(blow.victim)
        elif blow.kind is Kind.PAUSE:
            await victim.pause(blow.where)
            await asyncio.sleep(blow.seconds)
            await victim.go_on()
        else:
            await asyncio.to_thread(_hang_up, url, blow.victim + 1)


def _hang_up(url: str, lines: int) -> None:
    with psycopg.connect(url) as connection:
        connection.execute(HANG_UP, (lines,))
