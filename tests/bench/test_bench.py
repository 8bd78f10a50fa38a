import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from math import isfinite
from pathlib import Path

import pytest
from rich.console import Console

from fairwarning.core.model import Scope
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import MachineLocation
from tests.bench import generate, report
from tests.bench.__main__ import BENCHMARKS
from tests.bench.context import SMOKE, BenchmarkContext
from tests.bench.figures import Result, Target
from tests.bench.machine import describe
from tests.bench.processes import family_seconds
from tests.campaigns import split

QUICK = ("commands", "history", "serving")
# Differences of two noisy numbers.
MAY_BE_NEGATIVE = {"CPU %", "bytes a machine", "÷ its JSON", "KiB each"}


@pytest.mark.parametrize("name", split([*QUICK, *sorted(BENCHMARKS.keys() - QUICK)], len(QUICK)))
def test_benchmarks_yield_plausible_figures(name: str, tmp_path: Path) -> None:
    """Every benchmark runs to its end, reports each step, and fills its table with numbers."""
    steps: list[int] = []
    done: list[None] = []
    context = BenchmarkContext(SMOKE, tmp_path, expect=steps.append, step=lambda: done.append(None))
    result = BENCHMARKS[name](context)
    assert result.name == name
    assert [len(done)] == steps
    for row in result.rows.values():
        for column, value in row.items():
            assert isfinite(value), (name, column)
            assert value > 0 or column in MAY_BE_NEGATIVE, (name, column)


def test_a_fleet_is_generated_as_requested(tmp_path: Path) -> None:
    """The fleet has the requested machines in full scopes, each with its own address."""

    async def read() -> tuple[list[str], list[MachineLocation]]:
        store = SQLiteStore(tmp_path / "fleet.db")
        await store.open()
        result = await store.list_ids(Scope, "", 10), await store.list_machines(0, 1000)
        await store.close()
        return result

    assert generate.main(["--machines", "250", "--data", str(tmp_path)]) == 0
    scopes, places = asyncio.run(read())
    assert Counter(place.scope for place in places) == dict(
        zip(scopes, (100, 100, 50), strict=True)
    )
    assert len({place.machine.address for place in places}) == 250
    assert [place.number for place in places] == list(range(1, 251))


def test_an_existing_fleet_is_not_overwritten(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An existing fleet stays unchanged."""
    words = ["--machines", "3", "--scope", "2", "--data", str(tmp_path)]
    assert generate.main(words) == 0
    assert generate.main(words) == 1
    assert "already has a fleet" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        generate.main(["--machines", "3", "--scope", "101", "--data", str(tmp_path)])


def test_cpu_of_an_ended_child_still_counts() -> None:
    """The CPU time of a server does not fall when one of its children ends."""
    burn = "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
    command = [sys.executable, "-c", burn]
    before = family_seconds(os.getpid())
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout
        child.stdout.readline()
        alive = family_seconds(os.getpid())
        child.communicate(b"\n")
    assert alive >= before + 0.2
    assert family_seconds(os.getpid()) >= alive - 0.01  # a clock tick


def test_all_reports_have_the_same_numbers(tmp_path: Path) -> None:
    """Terminal, JSON and page have the same numbers."""
    target = Target("a ÷ b", 0.5, 1.0, at_least=True)
    rows = {"one": {"a": 1234.5, "b": 2.0}, "two": {"b": 20.25}}
    result = Result(name="x", title="Things", about="What.", rows=rows, targets=(target,))
    machine = describe(tmp_path)
    console = Console(record=True, width=200)
    report.show(console, machine, [result])
    page = report.as_markdown(machine, "2026-01-09", "make bench", [result])
    decoded = json.loads(json.dumps(report.as_json(machine, "2026-01-09", [result])))
    assert rows == decoded["benchmarks"]["x"]["rows"]
    assert not decoded["benchmarks"]["x"]["targets"][0]["met"]
    assert "| one | 1,234 | 2.00 |\n| two |  | 20.2 |" in page
    assert "| a ÷ b | 0.50 | at least 1 | missed |" in page
    text = console.export_text()
    assert "1,234" in text
    assert "a ÷ b: 0.50; target at least 1, missed" in text
