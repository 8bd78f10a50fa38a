import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.campaigns import split
from tests.cluster.cluster import ForkServer
from tests.cluster.plants import PLANTS
from tests.cluster.run import SETTLING_SECONDS, prepare, run
from tests.fixtures.postgres.server import shared
from tests.sim.violations import Violation

SEEDS = 50
CONCURRENT = 5  # seeds; they mostly wait
SEEDS_OF_A_PLANT = 30
PLANTED_CONCURRENT = 3  # most bugs are found by the first
SHORT_SETTLING_SECONDS = 3.0  # where a bug may prevent it


async def _run_seed(seed: int, fork_server: ForkServer, folder: Path, template: str) -> str:
    """Run a seed on its own database."""
    seed_folder = folder / str(seed)
    seed_folder.mkdir()
    url = await asyncio.to_thread(shared().database, template)
    try:
        seconds = SHORT_SETTLING_SECONDS if fork_server.bugs else SETTLING_SECONDS
        return await run(seed, url, fork_server, seed_folder, seconds)
    finally:
        await asyncio.to_thread(shared().drop, url)


def _run_seeds(
    seeds: Iterable[int], folder: Path, template: str, *bugs: str
) -> list[str | BaseException]:
    """Run several seeds concurrently and return their results."""

    async def run_all(fork_server: ForkServer) -> list[str | BaseException]:
        runs = (_run_seed(seed, fork_server, folder, template) for seed in seeds)
        return await asyncio.gather(*runs, return_exceptions=True)

    with ForkServer(*bugs) as fork_server:
        return asyncio.run(run_all(fork_server))


@pytest.mark.spec("X1", "E9")
@pytest.mark.parametrize("first", split(range(0, SEEDS, CONCURRENT), 1))
def test_processes_are_killed_and_paused_and_nothing_is_lost(
    database_url: str, first: int, tmp_path: Path
) -> None:
    """IK1 to IK3 and all of IL: three processes with clients, kill -9 and SIGSTOP."""
    asyncio.run(prepare(database_url))
    for outcome in _run_seeds(range(first, first + CONCURRENT), tmp_path, database_url):
        if isinstance(outcome, BaseException):
            raise outcome


@pytest.mark.parametrize("name", split((name for name in PLANTS if not PLANTS[name].failover), 0))
def test_a_planted_bug_is_found(database_url: str, name: str, tmp_path: Path) -> None:
    """Each is found within a number of seeds, through an invariant that it breaks."""
    asyncio.run(prepare(database_url, name))
    for first in range(0, SEEDS_OF_A_PLANT, PLANTED_CONCURRENT):
        seeds = range(first, first + PLANTED_CONCURRENT)
        outcomes = _run_seeds(seeds, tmp_path, database_url, name)
        errors = [outcome for outcome in outcomes if isinstance(outcome, BaseException)]
        if errors:
            broken = {error.invariant for error in errors if isinstance(error, Violation)}
            assert broken & set(PLANTS[name].breaks.split()), errors
            return
    raise AssertionError(f"nothing was found in {SEEDS_OF_A_PLANT} seeds")
