"""`pytest tests/console --rewrite-explanations` rewrites explanations/; review the diff."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Store
from tests.fixtures.console import ConsoleHarness

each_store = pytest.mark.parametrize("store", ["memory", "sqlite"], indirect=True)


@pytest.fixture
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """Return a new, empty store: in memory, or of the kind that a test asks for."""
    if getattr(request, "param", "memory") == "memory":
        return MemoryStore()
    return SQLiteStore(tmp_path / "fleet.db", reserved_bytes=4096)


@pytest.fixture
def console(store: Store) -> Iterator[ConsoleHarness]:
    """Start a console with an empty fleet and a virtual clock."""
    with ConsoleHarness(store=store) as harness:
        yield harness


@pytest.fixture
def web_and_vm(console: ConsoleHarness) -> None:
    """Create a scale set that polls, and a machine that does not."""
    console.created("sets", name="web", capacity=3, terminate_notice="PT5M")
    console.created("machines", name="vm")
    console.poll("web_0")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the flag."""
    parser.addoption(
        "--rewrite-explanations", action="store_true", help="rewrite the texts in explanations/"
    )
