"""The manifests on a real API server: the policy binds agents."""

from collections.abc import Callable
from pathlib import Path

import lightkube
import pytest
from lightkube.config.kubeconfig import KubeConfig
from lightkube.resources.core_v1 import Event, Node
from lightkube.types import PatchType

from fairwarning.guest.agent.kubernetes import permissions
from tests.fixtures.waiting import wait_until
from tests.kubernetes.real_cluster import RealCluster

pytestmark = pytest.mark.spec("G9")

LABEL = {"metadata": {"labels": {"fairwarning.dev/ready-x": "ready"}}}
STATUS = {"status": {"conditions": [{"type": "ScheduledMaintenance", "status": "False"}]}}


def client_of(config: Path) -> lightkube.Client:
    """Return a client with the credentials of a file."""
    return lightkube.Client(config=KubeConfig.from_file(config), trust_env=False)


def event_about(node: str) -> Event:
    """Return a Kubernetes Event about a node."""
    about = {"apiVersion": "v1", "kind": "Node", "name": node}
    metadata = {"generateName": "it.", "namespace": "default"}
    event = Event.from_dict({"metadata": metadata, "involvedObject": about, "reason": "Draining"})
    assert isinstance(event, Event)
    return event


def test_an_agent_changes_its_own_node_only(real: RealCluster) -> None:
    """Node, status and Events; with the rights of the role, which cover all nodes."""
    real.node("mine", "vm-1")
    real.node("theirs", "vm-2")
    with client_of(real.config("mine")) as agent:
        agent.patch(Node, "mine", LABEL, patch_type=PatchType.MERGE)
        agent.patch(Node.Status, "mine", STATUS, patch_type=PatchType.STRATEGIC)
        agent.create(event_about("mine"), namespace="default")
        for step in (
            lambda: agent.patch(Node, "theirs", LABEL, patch_type=PatchType.MERGE),
            lambda: agent.patch(Node.Status, "theirs", STATUS, patch_type=PatchType.STRATEGIC),
            lambda: agent.create(event_about("theirs"), namespace="default"),
        ):
            wait_until(lambda step=step: is_refused(step))  # type: ignore[misc]


def is_refused(step: Callable[[], object]) -> bool:
    """Whether the policy refuses a step; it takes effect a second after it was created."""
    try:
        step()
    except lightkube.ApiError as error:
        is_forbidden = error.response.status_code == 403
        return is_forbidden and "the agent of node mine may" in str(error)
    return False


def test_the_rights_of_the_role(real: RealCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """`agent check` finds all of them, and none without the role."""
    real.node("mine", "vm-1")
    monkeypatch.setenv("KUBECONFIG", str(real.config("mine")))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert all(allowed for _, allowed, _ in permissions())
    real.revoke()
    missing = {"patch nodes", "create pods/eviction"}
    wait_until(lambda: missing <= {what for what, allowed, _ in permissions() if not allowed})
