import re
import sys
from pathlib import Path

from tests.docs.chapters.contract import proofs
from tests.fixtures.programs import run_program
from tests.release.conformance.__main__ import ROOT
from tests.release.conformance.rows import all_rows, chapters, planned, statements

CONFTEST = (ROOT / "tests" / "conftest.py").read_text(encoding="utf-8")


def test_the_contract_has_all_its_rows() -> None:
    """Each is in the list, or among those that are planned; none is in the list twice."""
    sizes = {"M": 22, "E": 11, "T": 8, "C": 8, "G": 10, "O": 14, "X": 7}
    rows = [f"{letter}{n}" for letter, size in sizes.items() for n in range(1, size + 1)]
    listed = [row for chapter in chapters().values() for row in chapter]
    assert listed == [row for row in rows if row in all_rows()]
    assert set(rows) == {*listed, *planned()}


def test_every_statement_of_azures_pages_is_held() -> None:
    """By at least one row; each named row has a test, and each named test exists."""
    proved = proofs()
    for headings in statements().values():
        for stated in headings.values():
            for statement, held in stated.items():
                tests = [name for name in held if "::" in name]
                rows = [name for name in held if name not in tests]
                assert rows, statement
                assert all(proved.get(row) and row in all_rows() for row in rows), statement
                for test in tests:
                    file, _, name = test.partition("::")
                    assert f"def {name}(" in (ROOT / file).read_text("utf-8"), statement


SAMPLE = """
import pytest
pytestmark = pytest.mark.spec("M1")
@pytest.mark.spec("E2", "E4")
@pytest.mark.parametrize("n", [1, 2])
def test_sample(n): raise AssertionError("is only collected")
"""


def test_a_row_without_a_test(tmp_path: Path) -> None:
    """`make conformance` fails and names it."""
    (tmp_path / "conftest.py").write_text(CONFTEST, encoding="utf-8")
    (tmp_path / "test_sample.py").write_text(SAMPLE, encoding="utf-8")
    done = run_program(sys.executable, "-m", "tests.release.conformance", tmp_path, cwd=ROOT)
    assert done.returncode == 1
    assert re.search("^Without one: .*E3", done.stdout, re.MULTILINE)
