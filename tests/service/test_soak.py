"""Growth: with retention, neither files nor memory grow from the second month on."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Store
from tests.service.soak import Soak

NOISE_BLOCKS = 1000  # of the interpreter itself; an operation that is kept takes about ten
NOISE_BYTES = 64 * 1024
Make = Callable[[Path], Store]


def in_memory(_: Path) -> Store:
    """Return a store in memory."""
    return MemoryStore()


def in_a_file(folder: Path) -> Store:
    """Return a store in a file."""
    return SQLiteStore(folder / "fleet.db", reserved_bytes=4096)


@pytest.mark.parametrize(
    ("make", "days", "machines"),
    [
        pytest.param(in_memory, 90, 8, marks=pytest.mark.campaign),
        (in_a_file, 90, 8),
        pytest.param(in_memory, 365, 200, marks=pytest.mark.campaign),
        pytest.param(in_a_file, 365, 1000, marks=pytest.mark.campaign),
    ],
)
def test_daily_rollouts_do_not_grow_files_or_memory(
    make: Make, days: int, machines: int, tmp_path: Path
) -> None:
    """Every day all machines are maintained, and a machine and a webhook come and go."""
    soak = Soak(make(tmp_path), machines, tmp_path)
    asyncio.run(soak.run(days))
    assert soak.rows.are_flat(0), soak.rows
    assert soak.files.are_flat(NOISE_BYTES), soak.files
    assert soak.memory.are_flat(NOISE_BLOCKS), soak.memory
