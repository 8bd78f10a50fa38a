"""Targets of the Makefile that need other software: a run that tests nothing is red."""

import os
import re
import sys

import pytest

from tests.fixtures.forked import ForkedProgram
from tests.fixtures.programs import ROOT, run_program


@pytest.mark.parametrize(("option", "code"), [((), 0), (("--fail-if-all-skipped",), 1)])
def test_a_run_in_which_all_tests_are_skipped(option: tuple[str, ...], code: int) -> None:
    """It fails if the target says so, and tells what to do."""
    env = {name: value for name, value in os.environ.items() if name != "FAIRWARNING_QEMU"}
    words = ("-q", "-p", "no:cacheprovider", *option, "tests/release/qemu")
    done = run_program(sys.executable, "-m", "pytest", *words, cwd=ROOT, env=env)
    assert done.returncode == code, done.stdout
    assert ("Nothing was tested" in done.stdout) == bool(option)


def test_every_optional_target_says_so() -> None:
    """Those whose tests skip themselves where a program is missing."""
    makefile = (ROOT / "Makefile").read_text()
    optional = re.findall(r"(?m)^\t.*\$\(optional\) (\S+) .*\$\(ARGS\)$", makefile)
    assert optional == ["tests/release/qemu", "tests/release/containers", "tests/recipes"]
    assert "\noptional := $(py) -m pytest -rs -p no:randomly --fail-if-all-skipped\n" in makefile


def test_a_forked_program_has_its_python_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the libvirt driver of a service needs it; Python reads the variable at its start."""
    folder = str(ROOT / "tests" / "no such folder")
    monkeypatch.setenv("PYTHONPATH", folder)
    program = ForkedProgram([sys.executable, "-m", "site"])
    assert repr(folder) in program.stdout.read()
    assert program.wait() == 0
    program.stderr.close()
    program.stdout.close()
