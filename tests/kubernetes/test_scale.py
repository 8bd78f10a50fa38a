"""Large groups and large clusters: the number of calls, and the memory of an agent."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing

import pytest

from fairwarning.guest.agent.kubernetes import KubernetesNodes
from fairwarning.guest.events import Event, EventStatus, EventType
from tests.campaigns import split
from tests.fixtures.programs import run_python
from tests.kubernetes.clusters import AgentCluster

pytestmark = pytest.mark.spec("G9")

MACHINES = 100
SECONDS = 40
ID = "602D9444-D2CD-49C7-8624-8643E7171297"

FIND_NODE = """
from pathlib import Path
from fairwarning.guest.agent.kubernetes.api import connect
from fairwarning.guest.agent.kubernetes.nodes import own_node
node = own_node(connect(30), lambda: "db_0")
status = Path("/proc/self/status").read_text()  # getrusage counts the parent before the exec, too
print(node.name, status.partition("VmHWM:")[2].split()[0])
"""


@pytest.mark.campaign
def test_many_machines_in_one_event(cluster: AgentCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """They make fewer than 60 calls in every second, and the leader sees all of them ready."""
    names = [f"vm-{number}" for number in range(MACHINES)]
    event = Event(ID, EventType.REBOOT, EventStatus.SCHEDULED, tuple(names))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with ExitStack() as stack:
        agents = []
        for name in names:
            cluster.node(f"node-of-{name}", name)
            monkeypatch.setenv("NODE_NAME", f"node-of-{name}")
            monkeypatch.setenv("KUBECONFIG", str(cluster.config(f"node-of-{name}")))
            agents.append(KubernetesNodes(name))
            stack.enter_context(closing(agents[-1]._client))
        executor = stack.enter_context(ThreadPoolExecutor(8))
        rates = []  # calls a second of each round; on a busy machine one takes longer
        for second in range(SECONDS):
            began, before = time.monotonic(), cluster.calls().total()
            if second % 10 == 0:
                cluster.renew_leases()
            if second == SECONDS // 2:
                for agent in agents:
                    agent.signal(event, ready=True)
            members = list(executor.map(lambda agent: agent.members(event), agents))
            time.sleep(max(0.0, began + 1 - time.monotonic()))
            rates.append((cluster.calls().total() - before) / (time.monotonic() - began))
    assert members[0].ready == set(names)
    assert max(rates) < 60, rates


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
