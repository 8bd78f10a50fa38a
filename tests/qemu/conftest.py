"""Every test here is run in a room (see tests/real/room.py), if it was asked for at all."""

import pytest

from tests.qemu.needs import missing
from tests.real import room


def pytest_itemcollected(item: pytest.Item) -> None:
    """Outside, a test is: run it in a room."""
    if not room.is_inside():
        item.setup = lambda: None  # type: ignore[method-assign]
        item.runtest = lambda: _play(item)  # type: ignore[method-assign]


def _play(item: pytest.Item) -> None:
    if reason := missing():
        pytest.skip(reason)
    room.play(item.nodeid, item.config.rootpath)
