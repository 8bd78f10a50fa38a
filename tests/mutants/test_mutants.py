"""The mutants are what they say, and what is tried is the mutant."""

import pytest

from tests.fixtures.programs import ROOT, run_python
from tests.mutants.mutations import CORE, explained_survivors, mutants_of

PLANTED = """
from dataclasses import replace
from tests.mutants.mutations import CORE, mutants_of
from tests.mutants.trial import Trial

def mutant(module, before):
    return next(m for m in mutants_of(CORE / module) if m.before.startswith(before))

function = mutant("times.py", "raise Refused('BadDuration'")
rounding = mutant("lifecycle.py", "return -int(-moment // 1)")
constant = mutant("limits.py", "15")
waiting = "import signal, threading; signal.setitimer(signal.ITIMER_REAL, 1, 1)"
planted = {
    "a function": function,
    "a function, in the simulation": replace(rounding, text="return int(moment)"),
    "a constant": constant,
    "no difference in a function": replace(function, text=f"unused = 0; {function.before}"),
    "no difference in a constant": replace(constant, text="(14 + 1)"),
    "an import that fails": replace(constant, text="(1 / 0)"),
    "a loop": replace(function, text="while True: pass"),
    "a wait": replace(function, text=f"{waiting}; threading.Event().wait()"),
}
names = {id(mutant): name for name, mutant in planted.items()}
tests = "tests/core/test_times.py", "tests/contract/test_limits.py"
trial = Trial(lambda mutant, result: print(f"{names[id(mutant)]}: {result}"), tests, seeds=1)
trial.run(list(planted.values()), jobs=2)
"""


@pytest.mark.campaign
def test_what_is_tried_is_the_mutant() -> None:
    """A bug is caught where it is, a change without effect survives, and a hang ends."""
    done = run_python(PLANTED, cwd=ROOT)
    results = dict(line.split(": ", 1) for line in done.stdout.splitlines())
    assert results.pop("a function").startswith("tests/core/test_times.py::test_invalid_durations")
    assert results == {
        "a function, in the simulation": "seed 0",
        "a constant": "tests/contract/test_limits.py::test_the_published_limits_hold",
        "no difference in a function": "survived",
        "no difference in a constant": "survived",
        "an import that fails": "the import",
        "a loop": "a limit of time or memory",
        "a wait": "a limit of time or memory",
    }, done.stderr


def test_every_explained_survivor_is_a_mutant() -> None:
    """What explains a place that is gone must go, too."""
    mutants = {mutant.key for path in CORE.glob("*.py") for mutant in mutants_of(path)}
    assert explained_survivors().keys() <= mutants
