"""Upkeep of the node: nothing stays cordoned without an event; Events, condition and rights."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from fairwarning.core.errors import Unavailable
from fairwarning.guest.agent import agent_metrics
from fairwarning.guest.agent.config import parse
from fairwarning.guest.agent.kubernetes import NodeReconciler, permissions
from fairwarning.guest.agent.kubernetes.hooks import _preparing
from fairwarning.guest.agent.kubernetes.nodes import CORDONED, EVENT_ID
from fairwarning.guest.events import Document, Event, EventStatus, Phase
from tests.fixtures.waiting import wait_until
from tests.guest.kubernetes_double import Double, Raw, failure
from tests.guest.node_hooks import (
    DRAINED,
    EVENT,
    FREE,
    ID,
    NODE,
    OTHER,
    drain,
    mark,
    state,
    uncordon,
)

pytestmark = pytest.mark.spec("G9")

DRAIN = "fairwarning.guest.agent.kubernetes:drain"


class Machine:
    """An agent's upkeep of its node, with documents that it reads."""

    def __init__(self, double: Double, name: str = "vm-1") -> None:
        self.double = double
        self.reconciler = NodeReconciler(name)
        self._incarnation = 0

    def read(self, *events: Event) -> None:
        self._incarnation += 1
        document = Document(self._incarnation, events)
        self.reconciler.observe(document, self.double.clock.monotonic())

    def minutes(self, number: float, *events: Event) -> None:
        """Read documents and look at the node for some minutes."""
        ends = self.double.clock.monotonic() + number * 60
        while self.double.clock.monotonic() < ends:
            self.read(*events)
            self.double.clock.sleep(self.reconciler.look())


@pytest.fixture
def machine(cluster: Double) -> Iterator[Machine]:
    """The agent of this machine's node."""
    machine = Machine(cluster)
    yield machine
    machine.reconciler.close()


# --- Marks ----------------------------------------------------------------------------------------


def test_marks_of_an_event_in_the_document_stay(cluster: Double, machine: Machine) -> None:
    """Scheduled or started, and only those."""
    drain(cluster)
    mark(cluster, OTHER)
    machine.minutes(3, replace(EVENT, id=ID.lower(), status=EventStatus.STARTED))
    assert state(cluster)[0]
    assert state(cluster)[2] == {EVENT_ID: ID, CORDONED: ID}
    machine.minutes(2)
    assert state(cluster) == FREE
    assert cluster.calls.count(f"PATCH {NODE}") == 4


@pytest.mark.parametrize("documents", [0, 1])
def test_an_old_document_removes_nothing(cluster: Double, machine: Machine, documents: int) -> None:
    """Nor does none. The event may be younger: a second agent has read it and drains."""
    for _ in range(documents):
        machine.read()
    drain(cluster)
    before = len(cluster.calls)
    for _ in range(10):
        cluster.clock.sleep(machine.reconciler.look())
    assert state(cluster) == DRAINED
    assert documents or len(cluster.calls) == before
    machine.minutes(3, EVENT)
    assert state(cluster) == DRAINED
    machine.minutes(2)
    assert state(cluster) == FREE


@pytest.mark.parametrize("note", [EVENT_ID, CORDONED])
def test_marks_that_lost_their_event_are_removed(
    cluster: Double, machine: Machine, note: str
) -> None:
    """A taint or a cordon of ours whose annotation was deleted or emptied."""
    drain(cluster)
    notes = cluster.nodes["node-1"]["metadata"]["annotations"]
    notes[note] = ""
    if note == EVENT_ID:
        del notes[EVENT_ID]
    machine.minutes(2)
    assert state(cluster) == FREE


def test_labels_and_annotations_of_groups_are_removed(cluster: Double, machine: Machine) -> None:
    """Those of events that are over."""
    metadata = cluster.nodes["node-1"]["metadata"]
    metadata["labels"] |= {
        f"fairwarning.dev/ready-{ID.lower()}": "ready",
        f"fairwarning.dev/ready-{OTHER.id.lower()}": "ready",
        "kubernetes.io/os": "linux",
    }
    metadata["annotations"]["fairwarning.dev/ready-old"] = "OLD"
    machine.minutes(2, OTHER)
    assert state(cluster)[2] == {
        f"fairwarning.dev/ready-{OTHER.id.lower()}": "ready",
        "kubernetes.io/os": "linux",
    }


def test_marks_are_not_removed_while_a_hook_of_their_event_runs(
    cluster: Double, machine: Machine
) -> None:
    """It is told to end, and would mark the node again; afterwards they go."""
    drain(cluster)
    with _preparing(EVENT, Phase.SCHEDULED, cluster.clock.after(1000)):
        machine.minutes(2)
        assert state(cluster) == DRAINED
    machine.minutes(2)
    assert state(cluster) == FREE
    machine.read(EVENT)
    drain(cluster)
    machine.minutes(2, EVENT)  # the event has come back
    assert state(cluster) == DRAINED


def test_a_drain_ends_with_its_event(cluster: Double, machine: Machine) -> None:
    """Also without the hook `uncordon`, or it would evict pods for nothing until its deadline."""
    cluster.pod("web", app="web")
    cluster.budgets["web"] = 0
    machine.read(EVENT)
    cluster.clock.each.append(lambda now: machine.read() if now > 20 else None)
    with pytest.raises(Unavailable, match="the event is over"):
        drain(cluster)
    assert 20 < cluster.clock.monotonic() < 30
    machine.minutes(2)
    assert state(cluster) == FREE
    wait_until(lambda: "Uncordoned" in cluster.reasons())
    assert "DrainFailed" not in cluster.reasons()


def test_a_renamed_node(cluster: Double, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node is found again: by NODE_NAME of the new pod, or by its providerID."""
    drain(cluster)
    monkeypatch.delenv("NODE_NAME")
    machine.minutes(0.1)
    cluster.nodes["renamed"] = cluster.nodes.pop("node-1")
    cluster.nodes["renamed"]["metadata"]["name"] = "renamed"
    machine.minutes(2)
    assert state(cluster, "renamed") == FREE


def test_a_node_is_searched_once(
    cluster: Double, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without NODE_NAME a look at rest is one call as well, or all agents would list all nodes."""
    monkeypatch.delenv("NODE_NAME")
    machine.minutes(10)
    assert cluster.calls.count("GET /api/v1/nodes") == 1
    assert cluster.calls.count(f"GET {NODE}") >= 9


def test_marks_of_a_drill_stay_for_an_hour(cluster: Double, machine: Machine) -> None:
    """No document lists its event; a drill that was killed is cleaned up in the end."""
    drain(cluster, event=replace(EVENT, id=f"DRILL-{ID}"))
    machine.minutes(59)
    assert state(cluster)[0]
    machine.minutes(3)
    assert state(cluster) == FREE


def test_a_missing_node_is_reported_once_and_does_not_end_the_upkeep(
    cluster: Double, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    """It may come back: after a long reboot the kubelet registers it again."""
    drain(cluster)
    node = cluster.nodes.pop("node-1")
    machine.minutes(3)
    assert len([line for line in caplog.messages if "no node 'node-1'" in line]) == 1
    cluster.nodes["node-1"] = node
    machine.minutes(2)
    assert state(cluster) == FREE


@pytest.mark.parametrize("number", range(6))
def test_api_failures_only_delay_the_upkeep(cluster: Double, machine: Machine, number: int) -> None:
    """A lost response, a refusal or an outage at any call."""
    drain(cluster)
    cluster.lost = len(cluster.calls) + number
    cluster.failing = [None] * number + [failure(403, "forbidden"), failure(401, "Unauthorized")]
    machine.minutes(3)
    assert state(cluster) == FREE


def test_a_failed_uncordon_is_made_good(cluster: Double, machine: Machine) -> None:
    """The role was removed while the event ended, and given back much later; a metric shows it."""
    drain(cluster)
    cluster.denied = {"patch nodes", "get nodes"}
    with pytest.raises(Exception, match="lacks the right"):
        uncordon(cluster)
    machine.minutes(10)
    assert state(cluster) == DRAINED
    cluster.denied = {"patch nodes"}
    machine.minutes(2)
    assert agent_metrics.NODES_WITHOUT_EVENT.value() == 1
    cluster.denied.clear()
    machine.minutes(2)
    assert state(cluster) == FREE
    assert agent_metrics.NODES_WITHOUT_EVENT.value() == 0


def test_at_rest_a_look_is_one_call_a_minute(cluster: Double, machine: Machine) -> None:
    """Beside the first, which writes the condition."""
    machine.minutes(1)
    before = len(cluster.calls)
    machine.minutes(10)
    assert cluster.calls[before:] == [f"GET {NODE}"] * 10


def test_a_changed_document_is_compared_at_once(cluster: Double, machine: Machine) -> None:
    """Not at the next minute; an unchanged document is not."""
    stopped = threading.Event()
    thread = threading.Thread(target=machine.reconciler.run, args=(stopped,), daemon=True)
    thread.start()
    machine.read()
    wait_until(lambda: condition(cluster).get("status") == "False")
    machine.read(EVENT)
    wait_until(lambda: condition(cluster).get("status") == "True")
    stopped.set()
    machine.read()
    thread.join()


def test_machines_of_a_large_event_do_not_all_look_at_once(cluster: Double) -> None:
    """A machine waits by its place in the event; in small events none waits."""
    names = [f"vm-{number}" for number in range(50)]
    event = replace(EVENT, resources=tuple(names))
    waits = []
    for name in (names[0], names[2], names[30], names[49]):
        machine = Machine(cluster, name)
        machine.read(event)
        waits.append(machine.reconciler._spread_seconds())
    assert waits[:2] == [0, 0]
    assert 5 < waits[2] < waits[3] <= 20


# --- What people see ------------------------------------------------------------------------------


def condition(double: Double) -> Raw:
    """Return the condition of the node."""
    conditions = double.nodes["node-1"]["status"]["conditions"]
    return next((raw for raw in conditions if raw["type"] == "ScheduledMaintenance"), {})


def test_the_condition_shows_the_next_event(cluster: Double, machine: Machine) -> None:
    """True with type, id and NotBefore; False when there is none. Other conditions stay."""
    machine.minutes(1)
    assert condition(cluster)["status"] == "False"
    later = replace(OTHER, not_before=datetime(2030, 1, 1, 9, tzinfo=UTC))
    event = replace(EVENT, not_before=datetime(2030, 1, 1, 8, 30, tzinfo=UTC))
    machine.minutes(1, later, event)
    shown = condition(cluster)
    assert (shown["status"], shown["reason"]) == ("True", "Reboot")
    assert shown["message"] == f"Reboot {ID} is scheduled, not before 2030-01-01T08:30:00Z"
    machine.minutes(1, later, replace(event, status=EventStatus.STARTED, not_before=None))
    assert condition(cluster)["message"] == f"Reboot {ID} has started"
    machine.minutes(1, replace(EVENT, resources=("vm-2",)))
    assert condition(cluster)["status"] == "False"
    assert len(cluster.nodes["node-1"]["status"]["conditions"]) == 2
    assert cluster.calls.count(f"PATCH {NODE}/status") == 4


def test_events_on_the_node_show_each_step(cluster: Double, machine: Machine) -> None:
    """From the announcement to the end; each is about the node."""
    cluster.pod("web", grace=1)
    machine.minutes(1, EVENT)
    wait_until(lambda: len(cluster.events) == 1)
    drain(cluster)
    wait_until(lambda: len(cluster.events) == 3)
    uncordon(cluster)
    wait_until(lambda: len(cluster.events) == 4)
    assert sorted(cluster.reasons()) == [
        "Drained", "Draining", "ScheduledMaintenance", "Uncordoned"
    ]  # fmt: skip
    assert {event["involvedObject"]["uid"] for event in cluster.events} == {"uid-node-1"}
    assert {event["type"] for event in cluster.events} == {"Normal"}
    assert all(len(event["message"]) < 1024 for event in cluster.events)


def test_a_failed_drain_is_a_warning(cluster: Double) -> None:
    """With the pods that remain."""
    for number in range(30):
        cluster.pod(f"a-pod-with-a-long-name-{number}", app="a")
    cluster.budgets["a"] = 0
    with pytest.raises(Exception, match="and 10 more"):
        drain(cluster, 20)
    wait_until(lambda: "DrainFailed" in cluster.reasons())
    (event,) = [event for event in cluster.events if event["reason"] == "DrainFailed"]
    assert event["type"] == "Warning"
    assert "default/a-pod-with-a-long-name-0" in event["message"]
    assert len(event["message"]) <= 1024


def test_reports_that_fail_change_nothing(
    cluster: Double, machine: Machine, caplog: pytest.LogCaptureFixture
) -> None:
    """Without the rights for them the node is drained and freed all the same."""
    cluster.denied = {"create events", "patch nodes/status"}
    drain(cluster)
    machine.minutes(3)
    assert state(cluster) == FREE
    assert len([line for line in caplog.messages if "patch nodes/status" in line]) == 1


# --- Rights ---------------------------------------------------------------------------------------


def test_the_rights_that_a_configuration_needs(cluster: Double) -> None:
    """Asked from the API, each with an explanation if it is missing."""
    config = parse(f'[[hook]]\nname = "drain"\nphase = "scheduled"\ncall = "{DRAIN}"')
    cluster.denied = {"create pods/eviction"}
    assert config.uses_kubernetes
    assert not parse('[[hook]]\nname = "a"\nphase = "over"\ncall = "mine:drain"').uses_kubernetes
    rights = {what: (allowed, why) for what, allowed, why in permissions(config)}
    missing = rights.pop("create pods/eviction")
    assert missing == (False, "no rule; grant the rights in deploy/kubernetes-agent/base/rbac.yaml")
    assert set(rights) == {
        *("get nodes", "patch nodes", "list pods", "patch nodes/status"),
        "create events in namespace default",
    }
    assert set(rights.values()) == {(True, "")}


def test_a_group_needs_more_rights(cluster: Double) -> None:
    """To list nodes, and to read leases; without a configuration all rights are asked for."""
    names = {what for what, _, _ in permissions(parse("[group]\nkubernetes = true"))}
    assert {"list nodes", "get leases in namespace kube-node-lease"} <= names
    assert "list pods" not in names
    assert names < {what for what, _, _ in permissions()}
    cluster.away = True
    assert not any(allowed for _, allowed, _ in permissions())
