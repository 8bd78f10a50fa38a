"""The service that most tests of commands need; `@pytest.mark.up` has its options."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixtures.private_network import isolate
from tests.fixtures.service import ServiceProcess

SAMPLE = ("--sample", "--memory", "--clock", "virtual")


def pytest_configure(config: pytest.Config) -> None:
    """Describe the marks."""
    config.addinivalue_line("markers", "up(*words): the options of the service of a test")
    config.addinivalue_line("markers", "private_network: runs where only loopback can be reached")


def pytest_itemcollected(item: pytest.Item) -> None:
    """Run a test in a private network, if it asks for one."""
    if item.get_closest_marker("private_network"):
        isolate(item)


@pytest.fixture(autouse=True)
def _own_contexts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the contexts of each test in a folder of its own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


@pytest.fixture(scope="module")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """Start the default service for all tests of a module."""
    with ServiceProcess(tmp_path_factory.mktemp("shared") / "data", *SAMPLE) as started:
        yield started


@pytest.fixture
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServiceProcess]:
    """Start a service: by default with the sample fleet and a virtual clock."""
    mark = request.node.get_closest_marker("up")
    with ServiceProcess(tmp_path / "data", *(mark.args if mark else SAMPLE)) as started:
        yield started
