"""What mutants are tried against: tests, run in one session of pytest, and simulated seeds."""

import gc
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import _lru_cache_wrapper
from pathlib import Path

import pytest
from coverage import Coverage

from tests.mutants.mutations import CORE, Mutant

ROOT = Path(__file__).parents[2]
TESTS = (
    *("tests/core", "tests/contract"),
    *("tests/service/test_fleetfile.py", "tests/guest/test_config.py"),  # of core/configuration.py
    *("tests/service/test_set_aside.py", "tests/cli/test_durations.py"),  # of core/times.py
)
SEEDS, STEPS = 60, 1000
_SEED = "seed "
_ONCE = "record.py"
"""Generates functions at their first use, which only one test reaches."""
_OPTIONS = (
    *("--capture=no", "--assert=plain", "--override-ini=addopts=", "--import-mode=importlib"),
    *(f"-pno:{name}" for name in ("terminal", "randomly", "xdist", "schemathesis")),
)


class Checks:
    """Runs tests and seeds by their names, as often as needed."""

    def __init__(self, tests: Sequence[str], seeds: int, work: Callable[["Checks"], None]) -> None:
        self._tests = [str(ROOT / test) for test in tests]
        self._seeds = [f"{_SEED}{number}" for number in range(seeds)]
        self._work = work
        self._items: dict[str, pytest.Item] = {}
        self._failed = False
        self._error: Exception | None = None

    @property
    def names(self) -> list[str]:
        return [*self._items, *self._seeds]

    def collect(self) -> None:
        """Collect the tests, then do the work; it is not done if a test cannot be collected."""
        pytest.main([*_OPTIONS, *self._tests], [self])
        if self._error:
            raise self._error

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if not session.testsfailed:
            self._items = {item.nodeid: item for item in session.items}
            try:
                self._work(self)
            except Exception as error:  # noqa: BLE001  (pytest would only print it)
                self._error = error
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed |= report.failed

    def fails(self, name: str) -> bool:
        """Whether a check fails; one that no longer exists does."""
        if name.startswith(_SEED):
            return _fails(int(name.removeprefix(_SEED)))
        self._failed = name not in self._items
        if not self._failed:
            item = self._items[name]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return self._failed


def _fails(seed: int) -> bool:
    from tests.sim.run import run  # noqa: PLC0415  (imports what is mutated)

    try:
        return run(range(seed, seed + 1), STEPS, settle=seed % 2 == 0) is not None
    except Exception:  # noqa: BLE001  (whatever the mutant raises)
        return True


# --- Which checks reach which line ----------------------------------------------------------------


@dataclass
class Reached:
    """What the checks do if nothing is changed."""

    seconds: dict[str, float]
    """CPU time: tests first, the fastest first, then seeds."""
    lines: dict[str, dict[str, list[int]]]
    """By file and line, the positions of the checks that reach it; -1 is the import."""

    def checks_of(self, mutant: Mutant) -> list[str]:
        """Return the checks that a mutant can fail, in order."""
        every, reaching = self.is_imported(mutant), self._reaching(mutant)
        return [name for n, name in enumerate(self.seconds) if every or n in reaching]

    def is_imported(self, mutant: Mutant) -> bool:
        """Whether all checks may depend on a mutant, as an import or the first of them runs it."""
        return mutant.at_import or mutant.path.name == _ONCE or -1 in self._reaching(mutant)

    def _reaching(self, mutant: Mutant) -> set[int]:
        lines = self.lines.get(str(mutant.path), {})
        return {check for line in mutant.lines for check in lines.get(str(line), ())}


def measure(tests: Sequence[str], seeds: int) -> str:
    """Run all checks; return `Reached` as JSON. No check may fail."""
    coverage = Coverage(data_file=None, config_file=False, include=[f"{CORE}/*"])
    seconds: dict[str, float] = {}

    def work(checks: Checks) -> None:
        from tests.sim import run  # noqa: F401, PLC0415  (imports what it needs before any check)

        caches = [known for known in gc.get_objects() if isinstance(known, _lru_cache_wrapper)]
        for name in checks.names:
            for cache in caches:
                cache.cache_clear()
            coverage.switch_context(name)
            began = time.process_time()
            assert not checks.fails(name), f"{name} fails without any change"
            seconds[name] = time.process_time() - began

    coverage.start()
    Checks(tests, seeds, work).collect()
    coverage.stop()
    assert seconds, "the tests cannot be collected"
    ordered = sorted(seconds, key=lambda name: (name.startswith(_SEED), seconds[name]))
    positions = {"": -1} | {name: position for position, name in enumerate(ordered)}
    data = coverage.get_data()
    lines = {
        path: {
            str(line): [positions[name] for name in names]
            for line, names in data.contexts_by_lineno(path).items()
        }
        for path in data.measured_files()
    }
    return json.dumps(asdict(Reached({name: seconds[name] for name in ordered}, lines)))
