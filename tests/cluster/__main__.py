"""`python -m tests.cluster SEED...`: run processes with injected faults, seed by seed."""

import argparse
import asyncio
import sys
import tempfile
import traceback
from pathlib import Path

from tests.cluster.cluster import ForkServer
from tests.cluster.plants import PLANTS
from tests.cluster.run import prepare, run
from tests.fixtures.postgres.server import shared
from tests.sim.violations import Violation


async def _run(seed: int, fork_server: ForkServer, folder: Path) -> str:
    url = shared().database()
    await prepare(url, *fork_server.bugs)
    return await run(seed, url, fork_server, folder)


def main() -> int:
    """Run; return 0 if every invariant held, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("seeds", type=int, nargs="+", metavar="SEED")
    parser.add_argument("--to", type=int, help="run every seed up to this one")
    parser.add_argument("--plant", choices=sorted(PLANTS), help="plant this bug")
    options = parser.parse_args()
    seeds = range(options.seeds[0], options.to + 1) if options.to else options.seeds
    with ForkServer(*[options.plant] if options.plant else []) as fork_server:
        for seed in seeds:
            with tempfile.TemporaryDirectory() as folder:
                try:
                    print(asyncio.run(_run(seed, fork_server, Path(folder))), flush=True)
                except (Violation, Exception) as error:  # noqa: BLE001  (printed with its seed)
                    traceback.print_exception(error)
                    return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
