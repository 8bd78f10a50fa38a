"""`python -m tests.cluster SEED...`: processes under fire, seed by seed."""

import argparse
import asyncio
import sys
import tempfile
import traceback
from pathlib import Path

from tests.cluster.cluster import Nursery
from tests.cluster.plants import PLANTS
from tests.cluster.run import Report, prepare, run
from tests.fixtures.postgres.server import database
from tests.sim.violations import Violation


async def _run(seed: int, nursery: Nursery, folder: Path) -> Report:
    url = database()
    await prepare(url, *nursery.bugs)
    return await run(seed, url, nursery, folder)


def main() -> int:
    """Run; 0 when every invariant held, 1 when one did not."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("seeds", type=int, nargs="+", metavar="SEED")
    parser.add_argument("--to", type=int, help="every seed up to this one")
    parser.add_argument("--plant", choices=sorted(PLANTS), help="with this bug planted")
    options = parser.parse_args()
    seeds = range(options.seeds[0], options.to + 1) if options.to else options.seeds
    with Nursery(*[options.plant] if options.plant else []) as nursery:
        for seed in seeds:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    print(asyncio.run(_run(seed, nursery, Path(folder))), flush=True)
                except (Violation, Exception) as error:  # noqa: BLE001  (told with its seed)
                    traceback.print_exception(error)
                    return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
