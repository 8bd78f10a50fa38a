"""Sends many mutated requests: `python -m tests.hostile FIRST_SEED COUNT`."""

import sys

from tests.hostile.test_fuzz import CASES, test_mutated_bodies, test_mutated_requests


def main(first: int, count: int) -> None:
    """Run the tests of mutated bodies and requests with other seeds; a failure names its seed."""
    for seed in range(first, first + count):
        print(f"seed {seed}: ", end="", flush=True)
        test_mutated_bodies(seed)
        test_mutated_requests(seed)
        print(f"{2 * CASES} requests", flush=True)


main(int(sys.argv[1]), int(sys.argv[2]))
