"""A receiver of webhooks that agrees to everything, and stores."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Store
from tests.fixtures.receiver import Receiver


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Return a new, empty store of the kind that a test asks for."""
    if request.param == "memory":
        return MemoryStore()
    return SQLiteStore(tmp_path / "fleet.db", reserved_bytes=4096)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Yield a running receiver."""
    with Receiver() as receiver:
        yield receiver
