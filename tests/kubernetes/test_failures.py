"""Real agents on a cluster where things fail: the node ends free, and the approval is right.

Each test runs on the double, and on a real API server if there is one.
"""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.guest.agents import AgentEndpoint, AgentFolder, AgentProcess, one_machine
from tests.kubernetes.clusters import AgentCluster, is_drained, is_free

RESTARTS = int(os.environ.get("FAIRWARNING_API_RESTARTS", "1"))
"""How often each test with a restart of the API server runs; 20 before a release."""
LOOK_SECONDS = 0.5
MODULE = "fairwarning.guest.agent.kubernetes"

pytestmark = pytest.mark.spec("G9")


@dataclass
class AgentNode:
    """A machine `db_0` that is the node `node-1` of a cluster, with a pod."""

    cluster: AgentCluster
    endpoint: AgentEndpoint
    home: AgentFolder

    @contextmanager
    def agent(self) -> Iterator[AgentProcess]:
        """Run the machine's agent."""
        with AgentProcess(self.home, node=LOOK_SECONDS) as agent:
            yield agent

    def output(self) -> str:
        """Return the output of all agents so far."""
        return (self.home.folder / "output").read_text("utf-8", "replace")


@pytest.fixture
def node(
    cluster: AgentCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[AgentNode]:
    """The drain of the pod waits for its budget."""
    cluster.node("node-1", "db_0")
    cluster.pod("web", "node-1", owner="ReplicaSet")
    cluster.set_budget("web", 0)
    monkeypatch.setenv("NODE_NAME", "node-1")
    monkeypatch.setenv("KUBECONFIG", str(cluster.config("node-1")))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with one_machine(tmp_path / "machine") as (endpoint, home):
        for name, phase in (("drain", "scheduled"), ("uncordon", "over")):
            home.hooks.append(
                f'[[hook]]\nname = "{name}"\nphase = "{phase}"\ncall = "{MODULE}:{name}"\n'
                "timeout_seconds = 300\n"
            )
        yield AgentNode(cluster, endpoint, home)


def test_a_drain_from_its_notice_to_its_end(node: AgentNode) -> None:
    """Without any failure: approved once the pod is gone, free once the event is over."""
    with node.agent() as agent:
        node.endpoint.restart("db_0")
        agent.wait_until(lambda: is_drained(node.cluster, "node-1"))
        assert node.endpoint.approvals == []
        node.cluster.set_budget("web", 1)
        agent.wait_until(lambda: node.endpoint.approvals)
        assert node.cluster.pods("node-1") == []
        node.endpoint.finish("db")
        agent.wait_until(lambda: is_free(node.cluster, "node-1"))
    assert len(set(node.endpoint.approvals)) == 1  # it may be sent again


@pytest.mark.parametrize("number", range(RESTARTS))
def test_the_api_server_restarts_during_a_drain(node: AgentNode, number: int) -> None:
    """At a different moment each time; the drain goes on."""
    with node.agent() as agent:
        node.endpoint.restart("db_0")
        if number % 2:
            agent.wait_until(lambda: is_drained(node.cluster, "node-1"))
        node.cluster.set_budget("web", 1)
        node.cluster.stop()
        threading.Event().wait(0.3 + number % 5 * 0.5)
        node.cluster.start()
        agent.wait_until(lambda: node.endpoint.approvals)
        assert node.cluster.pods("node-1") == []
        node.endpoint.finish("db")
        agent.wait_until(lambda: is_free(node.cluster, "node-1"))
    assert len(set(node.endpoint.approvals)) == 1  # it may be sent again


@pytest.mark.parametrize("number", range(RESTARTS))
def test_the_api_server_restarts_during_an_uncordon(node: AgentNode, number: int) -> None:
    """The event ends while it is away."""
    node.cluster.set_budget("web", 1)
    with node.agent() as agent:
        node.endpoint.restart("db_0")
        agent.wait_until(lambda: node.endpoint.approvals)
        node.cluster.stop()
        node.endpoint.finish("db")
        threading.Event().wait(0.3 + number % 5 * 0.5)
        node.cluster.start()
        agent.wait_until(lambda: is_free(node.cluster, "node-1"))
    assert len(set(node.endpoint.approvals)) == 1  # it may be sent again


def test_the_state_folder_is_deleted(node: AgentNode) -> None:
    """The agent is killed during a drain and its journal is lost; the event ends meanwhile."""
    with node.agent() as agent:
        event = node.endpoint.restart("db_0")
        agent.wait_until(lambda: is_drained(node.cluster, "node-1"))
        agent.kill()
    shutil.rmtree(node.home.state)
    node.endpoint.approve("db_0", event.id)
    node.endpoint.finish("db")
    with node.agent() as agent:
        agent.wait_until(lambda: is_free(node.cluster, "node-1"))


def test_the_uncordon_hook_is_missing(node: AgentNode) -> None:
    """The configuration forgot it; the node is freed all the same."""
    node.home.hooks.pop()
    node.cluster.set_budget("web", 1)
    with node.agent() as agent:
        node.endpoint.restart("db_0")
        agent.wait_until(lambda: node.endpoint.approvals)
        node.endpoint.finish("db")
        agent.wait_until(lambda: is_free(node.cluster, "node-1"))


def test_the_role_is_removed_and_given_back(node: AgentNode) -> None:
    """During a drain; the agent needs no restart."""
    with node.agent() as agent:
        node.endpoint.restart("db_0")
        agent.wait_until(lambda: is_drained(node.cluster, "node-1"))
        node.cluster.revoke()
        node.cluster.set_budget("web", 1)
        agent.wait_until(lambda: "the agent lacks the right to" in node.output())
        assert node.endpoint.approvals == []
        node.cluster.grant()
        agent.wait_until(lambda: node.endpoint.approvals)
        node.endpoint.finish("db")
        agent.wait_until(lambda: is_free(node.cluster, "node-1"))
    assert len(set(node.endpoint.approvals)) == 1  # it may be sent again


def test_the_role_was_never_there(node: AgentNode) -> None:
    """The drain fails at its deadline with the missing right; nothing is approved or cordoned."""
    node.cluster.revoke()
    node.home.hooks[0] = node.home.hooks[0].replace("= 300", "= 10")
    with node.agent() as agent:
        node.endpoint.restart("db_0")
        agent.wait_until(lambda: "done" in node.home.steps())
        (failed,) = [entry.failed for entry in node.home.journal() if entry.step == "done"]
        assert "lacks the right to" in failed
        assert node.endpoint.approvals == []
        node.endpoint.advance(15 * 60 + 2)
        node.endpoint.finish("db")
        node.cluster.grant()
        agent.wait_until(lambda: not node.home.steps())
    assert is_free(node.cluster, "node-1")
    assert node.endpoint.approvals == []
    assert "web" in node.cluster.pods("node-1")


def test_pods_that_come_back(node: AgentNode) -> None:
    """Their controller ignores the cordon; they are evicted once, and the event is approved."""
    node.cluster.set_budget("web", 100)
    ended = threading.Event()
    created: list[str] = []

    def bring_back() -> None:
        while not ended.wait(0.05):
            if not node.cluster.pods("node-1", staying=True):
                created.append(f"web-{len(created)}")
                node.cluster.pod(created[-1], "node-1", owner="ReplicaSet")

    controller = threading.Thread(target=bring_back)
    controller.start()
    try:
        with node.agent() as agent:
            node.endpoint.restart("db_0")
            agent.wait_until(lambda: node.endpoint.approvals)
            assert len(created) == 2
            assert node.cluster.pods("node-1") == created[-1:]
            node.endpoint.finish("db")
            agent.wait_until(lambda: is_free(node.cluster, "node-1"))
    finally:
        ended.set()
        controller.join()
