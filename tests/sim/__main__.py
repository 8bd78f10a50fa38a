"""`python -m tests.sim`: simulate many seeds from the command line."""

import argparse
import asyncio
import logging
import sys
import time

from tests.sim import plants


def main() -> int:
    """Run the simulation; return 0 if every invariant held, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--settle", action="store_true", help="check liveness: all work must end")
    parser.add_argument("--sqlite", action="store_true", help="use a real SQLite file")
    parser.add_argument("--plant", choices=sorted(plants.PLANTS), help="plant this bug")
    parser.add_argument("--no-shrink", action="store_true")
    options = parser.parse_args()
    if options.plant:
        plants.plant(options.plant)
    from tests.sim import run  # noqa: PLC0415  (after planting)

    logging.getLogger("fairwarning").setLevel(logging.CRITICAL + 1)
    started = time.perf_counter()
    seeds = range(options.first, options.first + options.seeds)
    failure = run.run(seeds, options.steps, settle=options.settle, sqlite=options.sqlite)
    elapsed = time.perf_counter() - started
    if failure is None:
        rate = options.seeds * options.steps / elapsed
        print(f"{options.seeds} seeds x {options.steps} steps: no violation ({rate:,.0f} steps/s)")
        return 0
    print(failure)
    if not options.no_shrink:
        for action in asyncio.run(run.shrink(failure)):
            print("   ", action)
    return 1


if __name__ == "__main__":
    sys.exit(main())
