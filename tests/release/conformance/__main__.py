"""`make conformance`: print every row of the contract with the tests that prove it.

Collects tests and runs none. Exit code: 0 done, 1 a row has no test, 2 tests that cannot be
collected.
"""

import contextlib
import io
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.release.conformance.rows import all_rows, chapters, planned, rows_of

ROOT = Path(__file__).parents[3]


class Collector:
    """A pytest plugin that keeps, for each row, the tests that name it and how many cases each."""

    def __init__(self) -> None:
        self.proofs: dict[str, Counter[str]] = {row: Counter() for row in all_rows()}

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            test = item.nodeid.partition("[")[0]
            for row in rows_of(item):
                self.proofs[row][test] += 1


def collect(paths: Sequence[str]) -> dict[str, Counter[str]]:
    """For each row the tests under these paths that name it; exits when pytest cannot collect."""
    collector = Collector()
    said = io.StringIO()
    options = ["--collect-only", "-q", "-n0", f"--rootdir={ROOT}", f"-c{ROOT / 'pyproject.toml'}"]
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = pytest.main([*options, *paths], plugins=[collector])
    if code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        print(said.getvalue(), file=sys.stderr)
        sys.exit(2)
    return collector.proofs


def table(proofs: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """The lines of the report: chapters, rows, tests; then those without and those planned."""
    for chapter, rows in chapters().items():
        yield chapter
        for row, title in rows.items():
            yield f"  {row:<4} {title}"
            for test, cases in sorted(proofs[row].items()):
                yield f"         {test}" + (f" ({cases} cases)" if cases > 1 else "")
        yield ""
    unproved = [row for row, tests in proofs.items() if not tests]
    yield f"{len(proofs) - len(unproved)} of {len(proofs)} rows have a test."
    if unproved:
        yield f"Without one: {', '.join(unproved)}"
    yield ""
    yield "Planned, and not claimed yet"
    yield from (f"  {row:<4} {title}" for row, title in planned().items())


def main(paths: Sequence[str]) -> int:
    """Print the table; 1 when a row has no test."""
    proofs = collect(paths or [str(ROOT / "tests")])
    print("\n".join(table(proofs)))
    return 0 if all(proofs.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
