"""Large clusters: the memory of an agent."""

import pytest

from tests.campaigns import split
from tests.fixtures.programs import run_python
from tests.kubernetes.clusters import AgentCluster

pytestmark = pytest.mark.spec("G9")

FIND_NODE = """
from pathlib import Path
from fairwarning.guest.agent.kubernetes.api import connect
from fairwarning.guest.agent.kubernetes.nodes import own_node
node = own_node(connect(30), lambda: "db_0")
status = Path("/proc/self/status").read_text()  # getrusage counts the parent before the exec, too
print(node.name, status.partition("VmHWM:")[2].split()[0])
"""


@pytest.mark.parametrize("nodes", split([1000, 5000], 1))
def test_the_memory_of_a_search(
    cluster: AgentCluster, nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent without NODE_NAME lists all nodes, and stays below 64 MiB."""
    cluster.node("node-1", "db_0")
    cluster.fill(nodes)
    monkeypatch.setenv("KUBECONFIG", str(cluster.config("node-1")))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("NODE_NAME", raising=False)
    result = run_python(FIND_NODE)
    assert result.returncode == 0, result.stderr
    name, kibibytes = result.stdout.split()
    assert name == "node-1"
    assert int(kibibytes) < 64 << 10
