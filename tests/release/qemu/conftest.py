"""Every test here runs in a private network, and only on request."""

import pytest

from tests.fixtures import private_network
from tests.release.qemu.needs import missing


def pytest_itemcollected(item: pytest.Item) -> None:
    """Let a guest, its host and the service reach each other and nothing else."""
    private_network.isolate(item, _check)


def _check() -> None:
    if reason := missing():
        pytest.skip(reason)
