"""Real agents on a cluster where things fail: the node ends free, and the approval is right.

Each test runs on the double, and on a real API server if there is one.
"""

import os
import threading

import pytest

from tests.kubernetes.agent_node import AgentNode
from tests.kubernetes.clusters import is_drained, is_free

RESTARTS = int(os.environ.get("FAIRWARNING_API_RESTARTS", "1"))
"""How often each test with a restart of the API server runs; 20 before a release."""

pytestmark = pytest.mark.spec("G9")


def test_a_drain_from_its_notice_to_its_end(node: AgentNode) -> None:
    """Without any failure: approved once the pod is gone, free once the event is over."""
    with node.agent() as agent:
        node.restart(agent)
        assert node.endpoint.approvals == []
        node.cluster.set_budget("web", 1)
        agent.wait_until(lambda: node.endpoint.approvals)
        assert node.cluster.pods("node-1") == []
        node.finish(agent)
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
        node.finish(agent)
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


def test_the_role_is_removed_and_given_back(node: AgentNode) -> None:
    """During a drain; the agent needs no restart."""
    with node.agent() as agent:
        node.restart(agent)
        node.cluster.revoke()
        node.cluster.set_budget("web", 1)
        agent.wait_until(lambda: "the agent lacks the right to" in node.output())
        assert node.endpoint.approvals == []
        node.cluster.grant()
        agent.wait_until(lambda: node.endpoint.approvals)
        node.finish(agent)
    assert len(set(node.endpoint.approvals)) == 1  # it may be sent again


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
            node.finish(agent)
    finally:
        ended.set()
        controller.join()
