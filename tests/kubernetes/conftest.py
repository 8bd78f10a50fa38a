"""A cluster for each test: the double, and a real API server if there is one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kubernetes.agent_node import AgentNode, agent_node
from tests.kubernetes.clusters import AgentCluster, double_cluster
from tests.kubernetes.control_plane import MISSING, stop_control_plane
from tests.kubernetes.real_cluster import RealCluster, real_cluster


@pytest.fixture(params=["double", "real"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AgentCluster]:
    """A cluster without nodes."""
    if request.param == "double":
        with double_cluster(tmp_path) as double:
            yield double
        return
    if MISSING:
        pytest.skip(MISSING)
    with real_cluster() as real_one:
        yield real_one


@pytest.fixture
def node(cluster: AgentCluster, tmp_path: Path) -> Iterator[AgentNode]:
    """A machine `db_0` that is the node `node-1`, with a pod `web` that may not be evicted yet."""
    with agent_node(cluster, tmp_path) as machine:
        yield machine


@pytest.fixture
def real() -> Iterator[RealCluster]:
    """A cluster without nodes, on a real API server."""
    if MISSING:
        pytest.skip(MISSING)
    with real_cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session", autouse=True)
def _control_plane() -> Iterator[None]:
    """One API server for all tests of a process, started by the first that needs it."""
    yield
    stop_control_plane()
