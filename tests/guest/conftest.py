"""A cluster for the Kubernetes hooks: lightkube and real HTTP against a double, in virtual time."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fairwarning.guest.agent.kubernetes import api, hooks, members, reconcile
from tests.guest.kubernetes_double import Clock, Double, serving


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Double]:
    """A cluster with this machine's node, which NODE_NAME names."""
    clock = Clock()
    double = Double(clock)
    double.node("node-1", "x://cloud/vm-1")
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "FAIRWARNING_KEEP_PODS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NODE_NAME", "node-1")
    monkeypatch.setattr(hooks, "_own_name", "")
    for module in (api, members, reconcile):
        monkeypatch.setattr(module, "time", clock)
    with serving(double, tmp_path) as config:
        monkeypatch.setenv("KUBECONFIG", str(config))
        yield double
        for thread in threading.enumerate():
            if thread.name == "report":
                thread.join()


@pytest.fixture
def pair(cluster: Double) -> Double:
    """Create two nodes; the first is this machine's."""
    cluster.node("node-2", "x://cloud/vm-2")
    cluster.lease("node-1")
    cluster.lease("node-2")
    return cluster
