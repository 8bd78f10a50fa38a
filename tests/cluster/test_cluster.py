import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.campaigns import split
from tests.cluster.cluster import Nursery
from tests.cluster.plants import PLANTS
from tests.cluster.run import SETTLING_SECONDS, Report, prepare, run
from tests.fixtures.postgres.server import shared
from tests.sim.violations import Violation

SEEDS = 50
AT_ONCE = 5  # they mostly wait
SEEDS_OF_A_PLANT = 30
PLANTED_AT_ONCE = 3  # most are found by the first
HASTE_SECONDS = 3.0  # for everything to end, where it is not going to


async def _one(seed: int, nursery: Nursery, folder: Path, like: str) -> Report:
    """A seed on a database of its own."""
    place = folder / str(seed)
    place.mkdir()
    url = await asyncio.to_thread(shared().database, like)
    try:
        seconds = HASTE_SECONDS if nursery.bugs else SETTLING_SECONDS
        return await run(seed, url, nursery, place, seconds)
    finally:
        await asyncio.to_thread(shared().drop, url)


def _together(
    seeds: Iterable[int], folder: Path, like: str, *bugs: str
) -> list[Report | BaseException]:
    """Several seeds at once; what each came to."""

    async def whole(nursery: Nursery) -> list[Report | BaseException]:
        runs = (_one(seed, nursery, folder, like) for seed in seeds)
        return await asyncio.gather(*runs, return_exceptions=True)

    with Nursery(*bugs) as nursery:
        return asyncio.run(whole(nursery))


@pytest.mark.spec("X1", "E9")
@pytest.mark.parametrize("first", split(range(0, SEEDS, AT_ONCE), 1))
def test_processes_are_killed_and_paused_and_nothing_is_lost(
    database_url: str, first: int, tmp_path: Path
) -> None:
    """IK1 to IK3 and all of IL: three processes, clients of all of them, kill -9 and SIGSTOP."""
    asyncio.run(prepare(database_url))
    for outcome in _together(range(first, first + AT_ONCE), tmp_path, database_url):
        if isinstance(outcome, BaseException):
            raise outcome


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(database_url: str, name: str, tmp_path: Path) -> None:
    """Each is found within so many seeds, by an invariant that it breaks."""
    asyncio.run(prepare(database_url, name))
    for first in range(0, SEEDS_OF_A_PLANT, PLANTED_AT_ONCE):
        seeds = range(first, first + PLANTED_AT_ONCE)
        outcomes = _together(seeds, tmp_path, database_url, name)
        found = [one for one in outcomes if isinstance(one, BaseException)]
        if found:
            broken = {one.invariant for one in found if isinstance(one, Violation)}
            assert broken & set(PLANTS[name].breaks.split()), found
            return
    raise AssertionError(f"nothing was found in {SEEDS_OF_A_PLANT} seeds")
