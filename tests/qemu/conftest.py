"""Every test here runs isolated (see tests/fixtures/isolation.py), if it was asked for at all."""

import pytest

from tests.fixtures.isolation import isolate
from tests.qemu.needs import missing


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run each test in an isolated process."""
    isolate(item, _skip_if_missing)


def _skip_if_missing() -> None:
    if reason := missing():
        pytest.skip(reason)
