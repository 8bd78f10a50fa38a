"""Every test here runs in a private network, if it was asked for at all."""

import pytest

from tests.fixtures import private_network
from tests.qemu.needs import missing


def pytest_itemcollected(item: pytest.Item) -> None:
    """A guest, its host and the service see one another and nothing else."""
    private_network.isolate(item, _check)


def _check() -> None:
    if reason := missing():
        pytest.skip(reason)
