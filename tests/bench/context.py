"""The context of a benchmark: its effort, its folder, and measurements in processes of their own.

`python -m tests.bench.context MODULE FUNCTION JSON` measures and prints JSON.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, Final, TypeVar

from tests.bench import fleets
from tests.bench.fleets import SCOPE
from tests.bench.generate import build
from tests.bench.measure import Sample, middle
from tests.bench.processes import LOAD_CORE, pinned
from tests.bench.traffic import age

T = TypeVar("T")

ROOT: Final = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class Effort:
    """The size of the measurements."""

    rounds: int
    seconds: float  # per sample
    machines: int  # of the large fleet
    history: int  # commands in a fleet's history
    held: int  # long polls
    vast: int  # machines of the largest fleet
    cold: int  # scopes of it whose first polls are measured one by one
    crowd: int  # machines of it that poll, to measure memory per machine
    changes: int  # that one process makes and another sees; an even number
    apart: bool = True  # whether to use separate processes that do not disturb each other


FULL: Final = Effort(
    3, 2.0, 100_000, history=100_000, held=10_000,
    vast=1_000_000, cold=2000, crowd=100_000, changes=500,
)  # fmt: skip
QUICK: Final = Effort(
    2, 0.2, 10_000, history=5000, held=1000,
    vast=50_000, cold=100, crowd=10_000, changes=50,
)  # fmt: skip
SMOKE: Final = Effort(
    1, 0.0, 300, history=1, held=20,
    vast=500, cold=1, crowd=100, changes=2, apart=False,
)  # fmt: skip


@dataclass(slots=True)
class BenchmarkContext:
    """The context of a benchmark."""

    effort: Effort
    folder: Path

    def in_turn(self, contenders: Mapping[str, Callable[[], T]]) -> dict[str, list[T]]:
        """Run each contender once per round, so that disturbances affect all equally."""
        taken: dict[str, list[T]] = {name: [] for name in contenders}
        for _ in range(self.effort.rounds):
            for name, run in contenders.items():
                taken[name].append(run())
        return taken

    def samples(self, contenders: Mapping[str, Callable[[], Sample]]) -> dict[str, Sample]:
        """Run each contender once per round; return the sample of median times of each."""
        return {name: middle(rounds) for name, rounds in self.in_turn(contenders).items()}

    def medians(
        self, contenders: Mapping[str, Callable[[], Mapping[str, float]]]
    ) -> dict[str, dict[str, float]]:
        """Run each contender once per round; return the median of each of its figures."""
        return {name: medians(rounds) for name, rounds in self.in_turn(contenders).items()}

    def fleet(self, machines: int, history: int = 0, of_scope: int = SCOPE) -> Path:
        """The file of a fleet, which the first call creates. Copy it before changing it."""
        path = self.folder / f"fleet-{machines}-{history}-{of_scope}" / "fleet.db"
        if not path.exists():
            self.probe(build, data=str(path.parent), machines=machines, of_scope=of_scope)
            if history:
                self.probe(age, path=str(path), machines=machines, history=history)
        return path

    def copy(self, path: Path) -> Path:
        """A copy of a fleet's file to change; it replaces the previous copy."""
        folder = self.folder / "copy"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        copied = Path(shutil.copy(path, folder))
        with copied.open("rb") as file:
            os.fsync(file.fileno())
        return copied

    def clients(self, function: Callable[..., Any], **how: object) -> Any:  # noqa: ANN401
        """Run a coroutine function in a new process on the core for load."""
        with pinned(LOAD_CORE) if self.effort.apart else nullcontext():
            return self.probe(function, **how)

    def probe(self, function: Callable[..., Any], **how: object) -> Any:  # noqa: ANN401  (its result)
        """Run a coroutine function in a new process."""
        if not self.effort.apart:
            return _run(function, how)
        words = [function.__module__, function.__name__, json.dumps(how)]
        command = [sys.executable, "-m", "tests.bench.context", *words]
        done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)


def medians(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of each figure."""
    return {column: median(row[column] for row in rows) for column in rows[0]}


def _run(function: Callable[..., Any], how: Mapping[str, Any]) -> Any:  # noqa: ANN401  (its result)
    """Run a coroutine function in this process."""
    with fleets.runner() as loop:
        return loop.run(function(**how))


if __name__ == "__main__":
    module, name, text = sys.argv[1:]
    print(json.dumps(_run(getattr(import_module(module), name), json.loads(text))))
