"""The Kubernetes hooks on one node of a double, and the state that they leave."""

from dataclasses import replace

from fairwarning.guest.agent import kubernetes
from fairwarning.guest.agent.kubernetes.nodes import CORDONED, EVENT_ID, TAINT
from fairwarning.guest.events import Event, EventStatus, EventType, Phase
from tests.guest.kubernetes_double import Double

ID = "602D9444-D2CD-49C7-8624-8643E7171297"
EVENT = Event(ID, EventType.REBOOT, EventStatus.SCHEDULED, ("vm-1",))
OTHER = replace(EVENT, id="B0000000-0000-0000-0000-000000000002", type=EventType.FREEZE)
NODE = "/api/v1/nodes/node-1"
EVICT = "POST /api/v1/namespaces/default/pods/{}/eviction"

State = tuple[bool, dict[str, str], dict[str, str]]
DRAINED: State = (True, {TAINT: "Reboot"}, {EVENT_ID: ID, CORDONED: ID})
FREE: State = (False, {}, {})


def drain(double: Double, seconds: float = 300, event: Event = EVENT) -> None:
    """Run the hook."""
    kubernetes.drain(event, Phase.SCHEDULED, double.clock.after(seconds), False)


def mark(double: Double, event: Event = EVENT) -> None:
    """Run the hook."""
    kubernetes.mark(event, Phase.SCHEDULED, double.clock.after(60), False)


def uncordon(double: Double, event: Event = EVENT, seconds: float = 60) -> None:
    """Run the hook."""
    kubernetes.uncordon(event, Phase.OVER, double.clock.after(seconds), False)


def state(double: Double, name: str = "node-1") -> State:
    """Return whether a node is cordoned, its taints, and its annotations and labels."""
    node = double.nodes[name]
    taints = {taint["key"]: taint.get("value", "") for taint in node["spec"].get("taints", [])}
    notes = {**node["metadata"]["annotations"], **node["metadata"]["labels"]}
    return node["spec"].get("unschedulable", False), taints, notes
