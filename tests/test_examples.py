"""Examples are programs, so they are run."""

import sys
from pathlib import Path

import pytest

from tests.fixtures.programs import run_program

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_it_runs(path: Path) -> None:
    """To its end, without a complaint."""
    done = run_program(sys.executable, path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
