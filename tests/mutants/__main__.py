"""Change `core` at random places, and see which changes no check notices.

Each mutant is tried against the tests of the core and of the contract, then against simulated
seeds. Fails if fewer than 97 % are caught, or if one survives that `survivors.toml` does not
explain.
"""

import argparse
import sys
from collections import Counter

from tests.mutants.mutations import Mutant, choose, explained_survivors
from tests.mutants.trial import SURVIVED, Trial

LEAST_CAUGHT = 0.97
CAUGHT = "caught by a test", "caught by a seed", "caught by a limit"


def _column(result: str) -> str:
    if result == SURVIVED:
        return "unexplained"
    if result.startswith("seed "):
        return CAUGHT[1]
    return CAUGHT[2] if result.startswith("a limit") else CAUGHT[0]


def main() -> int:
    """Run; return 0 if enough mutants were caught and the others are explained, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="of the choice of mutants")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    options = parser.parse_args()
    mutants = choose(options.count, options.seed)
    reasons, counts = explained_survivors(), Counter[str]()

    def report(mutant: Mutant, result: str) -> None:
        """Count a mutant, and print what caught it or why it survived."""
        explained = result == SURVIVED and reasons.get(mutant.key)
        column = "explained" if explained else _column(result)
        counts[column] += 1
        print(f"{mutant}\n    {mutant.function}: {column}: {explained or result}", flush=True)

    Trial(report).run(mutants, options.jobs)
    caught = sum(counts[column] for column in CAUGHT)
    print("\n", *(f"{column}: {count}" for column, count in sorted(counts.items())), sep="\n")
    print(f"{caught} of {len(mutants)} mutants caught (seed {options.seed})")
    return 0 if caught >= LEAST_CAUGHT * len(mutants) and not counts["unexplained"] else 1


if __name__ == "__main__":
    sys.exit(main())
