import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.fixtures.programs import run_program
from tests.release.conformance.__main__ import ROOT, table
from tests.release.conformance.rows import all_rows, chapters, expand, planned

pytest_plugins = ["pytester"]

CONFTEST = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")


def _report(tests: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """What `make conformance` would say if these were all the tests."""
    (folder / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (folder / "test_sample.py").write_text(tests, encoding="utf-8")
    return run_program(
        sys.executable, "-m", "tests.release.conformance", *options, folder, cwd=ROOT
    )


def test_the_contract_has_all_its_rows() -> None:
    """Each is in the list, or among those that are planned; none is in the list twice."""
    sizes = {"M": 22, "E": 11, "T": 8, "C": 8, "G": 10, "O": 14, "X": 7}
    rows = [f"{letter}{n}" for letter, size in sizes.items() for n in range(1, size + 1)]
    listed = [row for chapter in chapters().values() for row in chapter]
    assert listed == [row for row in rows if row in all_rows()]
    assert set(rows) == {*listed, *planned()}


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("", []),
        ("E2", ["E2"]),
        ("E2, M8,", ["E2", "M8"]),
        ("E9-E11,T1", ["E9", "E10", "E11", "T1"]),
    ],
)
def test_rows_can_be_written_as_ranges(text: str, rows: list[str]) -> None:
    """`E9-E11` means the three rows, and several may be listed."""
    assert expand(text) == rows


@pytest.mark.parametrize("text", ["E12", "e1", "E1-M3", "E3-E1", "E10-E12", "nonsense"])
def test_rows_that_do_not_exist_are_refused(text: str) -> None:
    """A misspelt row never passes for one that is proved."""
    with pytest.raises(ValueError, match=r"no such row|not a range"):
        expand(text)


def test_the_table_folds_cases_and_lists_the_rows_without_tests() -> None:
    """Each row is there with its tests; the end says which have none."""
    proofs = {row: Counter[str]() for row in all_rows()}
    proofs["E2"] = Counter({"tests/a.py::test_due": 3, "tests/a.py::test_approved": 1})
    lines = list(table(proofs))
    at = next(i for i, line in enumerate(lines) if line.startswith("  E2 "))
    assert lines[at + 1 : at + 3] == [
        "         tests/a.py::test_approved",
        "         tests/a.py::test_due (3 cases)",
    ]
    at = lines.index(f"1 of {len(all_rows())} rows have a test.")
    assert "E1, E3," in lines[at + 1]
    assert len(lines[at + 4 :]) == len(planned())


SAMPLE = """
import pytest
pytestmark = pytest.mark.spec("M1")
@pytest.mark.spec("E2", "E4")
@pytest.mark.parametrize("n", [1, 2])
def test_sample(n): raise AssertionError("is only collected")
"""


def test_the_command_collects_and_never_runs(tmp_path: Path) -> None:
    """`make conformance` finds markers on tests and on files, and runs no test."""
    done = _report(SAMPLE, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("test_sample.py::test_sample (2 cases)") == 3
    assert f"3 of {len(all_rows())} rows have a test." in done.stdout


@pytest.mark.parametrize(
    ("rows", "code", "said"),
    [("M1,E2", 0, ""), ("E2-E4", 1, "without a test: E3"), ("E99", 2, "no such row: E99")],
)
def test_required_rows(tmp_path: Path, rows: str, code: int, said: str) -> None:
    """`--require` passes only when each of the rows has a test."""
    done = _report(SAMPLE, tmp_path, "--require", rows)
    assert done.returncode == code
    assert said in done.stderr


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ("spec('E2', 'E99')", "'E99' is no row of the contract"),
        ("spec(7)", "7 is no row of the contract"),
        ("spec()", "at least one"),
        ("spec(row='E2')", "at least one"),
    ],
)
def test_a_test_may_only_name_rows_that_exist(
    pytester: pytest.Pytester, marker: str, said: str
) -> None:
    """A wrong marker stops the run before any test, in one line."""
    pytester.makeconftest(CONFTEST)
    pytester.makepyfile(f"import pytest\n@pytest.mark.{marker}\ndef test_a(): ...")
    result = pytester.runpytest("-n0")
    assert result.ret in {pytest.ExitCode.INTERRUPTED, pytest.ExitCode.TESTS_FAILED}
    result.stdout.fnmatch_lines([f"test_a: *{said}*"])
    result.assert_outcomes(errors=1)
