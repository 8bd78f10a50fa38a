import asyncio
from collections import Counter
from math import isfinite
from pathlib import Path

import pytest

from fairwarning.core.model import Scope
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import MachineLocation
from tests.bench import generate
from tests.bench.__main__ import BENCHMARKS
from tests.bench.context import SMOKE, BenchmarkContext
from tests.campaigns import split

QUICK = ("decisions", "commands", "visible", "history", "serving")
# Differences of two noisy numbers.
MAY_BE_NEGATIVE = {"CPU %", "bytes a machine", "÷ its JSON", "KiB each"}


@pytest.mark.parametrize("name", split([*QUICK, *sorted(BENCHMARKS.keys() - QUICK)], len(QUICK)))
def test_benchmarks_yield_plausible_figures(name: str, tmp_path: Path) -> None:
    """Every benchmark runs to its end and fills its table with numbers."""
    result = BENCHMARKS[name](BenchmarkContext(SMOKE, tmp_path))
    assert result.name == name
    for row in result.rows.values():
        for column, value in row.items():
            assert isfinite(value), (name, column)
            assert value > 0 or column in MAY_BE_NEGATIVE, (name, column)


def test_a_fleet_is_generated_as_requested(tmp_path: Path) -> None:
    """Machines in full scopes, each with its own address; not beside a fleet that exists."""

    async def read() -> tuple[list[str], list[MachineLocation]]:
        store = SQLiteStore(tmp_path / "fleet.db")
        await store.open()
        result = await store.list_ids(Scope, "", 10), await store.list_machines(0, 1000)
        await store.close()
        return result

    words = ["--machines", "250", "--data", str(tmp_path)]
    assert generate.main(words) == 0
    assert generate.main(words) == 1, "the fleet is there already"
    scopes, places = asyncio.run(read())
    assert Counter(place.scope for place in places) == dict(
        zip(scopes, (100, 100, 50), strict=True)
    )
    assert len({place.machine.address for place in places}) == 250
    assert [place.number for place in places] == list(range(1, 251))
