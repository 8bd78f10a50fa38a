"""Change `core` at random places, and see which changes no check notices.

Each mutant is tried against the tests of the core and of the contract, then against simulated
seeds. Fails if fewer than 97 % are caught, or if one survives that `survivors.toml` does not
explain.
"""

import argparse
import sys
from collections import Counter

from tests.mutants.mutations import KINDS, Mutant, choose, explained_survivors
from tests.mutants.trial import SURVIVED, Trial

LEAST_CAUGHT = 0.97
COLUMNS = "caught by a test", "by a seed", "by a limit", "explained", "unexplained"


class Table:
    """Counts what became of the mutants."""

    def __init__(self) -> None:
        self._reasons = explained_survivors()
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, mutant: Mutant, result: str) -> None:
        """Count a mutant, and print what caught it or why it survived."""
        explained = result == SURVIVED and self._reasons.get(mutant.key)
        column = COLUMNS[3] if explained else _column(result)
        self._counts[mutant.kind, column] += 1
        print(f"{mutant}\n    {mutant.function}: {column}: {explained or result}", flush=True)

    def count(self, *columns: str) -> int:
        return sum(self._counts[kind, column] for kind in KINDS for column in columns)

    def __str__(self) -> str:
        lines = ["".join(f"{name:>18}" for name in ("", *COLUMNS))]
        for kind in KINDS:
            counts = (f"{self._counts[kind, column]:18}" for column in COLUMNS)
            lines.append(f"{kind:>18}{''.join(counts)}")
        return "\n".join(lines)


def _column(result: str) -> str:
    if result == SURVIVED:
        return COLUMNS[4]
    if result.startswith("seed "):
        return COLUMNS[1]
    return COLUMNS[2] if result.startswith("a limit") else COLUMNS[0]


def main() -> int:
    """Run; return 0 if enough mutants were caught and the others are explained, else 1."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0, help="of the choice of mutants")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument("--only", default="", help="those whose line begins so: windows.py:5")
    options = parser.parse_args()
    mutants = choose(options.count, options.seed)
    mutants = [mutant for mutant in mutants if str(mutant).startswith(options.only)]
    table = Table()
    Trial(table.add).run(mutants, options.jobs)
    caught = table.count(*COLUMNS[:3])
    print(f"\n{table}\n\n{caught} of {len(mutants)} mutants caught (seed {options.seed})")
    enough = caught >= LEAST_CAUGHT * len(mutants)
    return 0 if enough and not table.count(COLUMNS[4]) else 1


if __name__ == "__main__":
    sys.exit(main())
