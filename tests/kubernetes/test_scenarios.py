"""What people of other termination handlers ask: real agents, on the double and a real API server.

A budget that is freed late, and an API server that restarts, are in test_failures.
"""

from typing import Any

import pytest

from fairwarning.core.commands import Cancel, Evict
from tests.kubernetes.agent_node import AgentNode
from tests.kubernetes.clusters import is_drained, is_free

pytestmark = pytest.mark.spec("G9")

TAINT = {"key": "example.org/mine", "value": "yes", "effect": "NoSchedule"}
LABELS = {"example.org/rack": "7"}


def marks_of_people(node: AgentNode) -> tuple[bool, list[Any], dict[str, str]]:
    """Return the cordon, the taints and the labels that are not ours."""
    raw = node.cluster.raw_node("node-1")
    taints = [taint for taint in raw["spec"].get("taints", []) if "example" in taint["key"]]
    labels = {key: value for key, value in raw["metadata"]["labels"].items() if "example" in key}
    return bool(raw["spec"].get("unschedulable")), taints, labels


def change_by_hand(node: AgentNode, *, cordon: bool) -> None:
    """Label, taint and perhaps cordon the node, as a person does."""
    raw = node.cluster.raw_node("node-1")
    taints = [*raw["spec"].get("taints", []), TAINT]
    spec = {"taints": taints, **({"unschedulable": True} if cordon else {})}
    node.cluster.change_node("node-1", {"metadata": {"labels": LABELS}, "spec": spec})


@pytest.mark.parametrize("moment", ["before", "during", "approved"])
def test_what_people_changed_stays(node: AgentNode, moment: str) -> None:
    """Their cordon from before the event, and their taint and label of any time."""
    if moment == "before":
        change_by_hand(node, cordon=True)
    with node.agent() as agent:
        node.endpoint.restart("db_0")
        agent.wait_until(lambda: "fairwarning.dev/event-id" in node.notes())
        if moment == "during":
            change_by_hand(node, cordon=False)
        node.cluster.set_budget("web", 1)
        agent.wait_until(lambda: node.endpoint.approvals)
        if moment == "approved":
            change_by_hand(node, cordon=False)
        node.endpoint.finish("db")
        agent.wait_until(lambda: "fairwarning.dev/event-id" not in node.notes())
        assert marks_of_people(node) == (moment == "before", [TAINT], LABELS)


def test_an_event_that_another_replaces(node: AgentNode) -> None:
    """A reboot gives way to an eviction: one is undone, and the other is prepared and approved."""
    with node.agent() as agent:
        first = node.restart(agent)
        node.endpoint.do(Evict(scope="db", operation="evict", machines=("db_0",)))
        (second,) = node.endpoint.scope("db").events
        agent.wait_until(lambda: node.notes().get("fairwarning.dev/event-id") == second)
        node.cluster.set_budget("web", 1)
        agent.wait_until(lambda: node.endpoint.approvals)
        assert is_drained(node.cluster, "node-1")
        assert first.id not in node.notes()["fairwarning.dev/event-id"]


def test_a_node_that_is_deleted_meanwhile(node: AgentNode) -> None:
    """The agent lives on, and keeps the node that comes back in its place."""
    with node.agent() as agent:
        node.restart(agent)
        node.cluster.delete_node("node-1")
        node.cluster.set_budget("web", 1)
        agent.wait_until(lambda: ") failed after" in node.output() or node.endpoint.approvals)
        node.cluster.node("node-1", "db_0")
        node.finish(agent)


def test_an_agent_that_is_killed_again_and_again(node: AgentNode) -> None:
    """During a drain; each successor goes on, and nothing is left in the end."""
    node.endpoint.restart("db_0")
    for _ in range(5):
        with node.agent() as agent:
            agent.wait_until(lambda: is_drained(node.cluster, "node-1"))
            agent.kill()
    assert node.endpoint.approvals == []
    node.cluster.set_budget("web", 1)
    with node.agent() as agent:
        agent.wait_until(lambda: node.endpoint.approvals)
        assert node.cluster.pods("node-1") == []
        node.finish(agent)


def test_a_rolling_update_of_the_agents(node: AgentNode) -> None:
    """During a drain: the old pod ends in time, and the new one goes on with the same journal."""
    with node.agent() as agent:
        node.restart(agent)
        assert agent.stop() < 10  # terminationGracePeriodSeconds of the DaemonSet
    node.cluster.set_budget("web", 1)
    with node.agent() as agent:
        agent.wait_until(lambda: node.endpoint.approvals)
        node.finish(agent)


def test_an_event_that_is_cancelled_while_the_api_server_is_away(node: AgentNode) -> None:
    """Once it is back, the node is free, and no pod was evicted for nothing."""
    with node.agent() as agent:
        event = node.restart(agent)
        node.cluster.stop()
        node.endpoint.do(Cancel(scope="db", event=event.id))
        node.cluster.set_budget("web", 1)
        agent.wait_until(lambda: ": cancelled" in node.output())
        node.cluster.start()
        agent.wait_until(lambda: is_free(node.cluster, "node-1"))
    assert node.endpoint.approvals == []
    assert node.cluster.pods("node-1") == ["web"]


def test_a_freeze_evicts_nothing(node: AgentNode) -> None:
    """No new pods for some seconds, and the approval does not wait."""
    with node.agent() as agent:
        node.endpoint.freeze("db_0")
        agent.wait_until(lambda: node.endpoint.approvals)
        assert node.cluster.pods("node-1", staying=True) == ["web"]
        assert not node.cluster.raw_node("node-1")["spec"].get("unschedulable")
        node.finish(agent)


@pytest.mark.campaign
def test_an_eviction_of_the_machine_cuts_a_long_grace_period(node: AgentNode) -> None:
    """With a notice of 30 s, a pod that wants an hour gets what is left, and is gone in time."""
    node.cluster.pod("slow", "node-1", owner="ReplicaSet", grace=3600)
    node.cluster.set_budget("web", 1)
    with node.agent() as agent:
        node.endpoint.do(Evict(scope="db", operation="evict", machines=("db_0",)))
        agent.wait_until(lambda: node.endpoint.approvals)
    assert node.cluster.pods("node-1") == []
