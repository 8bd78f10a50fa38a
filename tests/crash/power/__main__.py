"""Simulates power loss in many workloads: `python -m tests.crash.power COUNT [FIRST_SEED]`."""

import sys

from fairwarning.store import sqlite
from tests.crash.power.images import check_all
from tests.crash.power.workload import SHORT_LOG


def main(count: int, first: int) -> None:
    """Print the number of crash images after each workload; a failure names its seed."""
    sqlite._LOG_PAGES = SHORT_LOG
    images = 0
    for seed in range(first, first + count):
        sys.stdout.write(f"seed {seed}: ")
        sys.stdout.flush()
        images += check_all(seed=seed, batches=12)["images"]
        sys.stdout.write(f"{images} images so far, none bad\n")


main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1)
