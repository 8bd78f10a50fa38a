"""The Kubernetes hooks with lightkube and real HTTP against a double; only time is virtual."""

from dataclasses import replace

import pytest

from fairwarning.core.errors import NotFound, Unavailable
from fairwarning.guest.agent.agent import Agent
from fairwarning.guest.agent.config import AgentConfig, HookKind, HookSettings
from fairwarning.guest.agent.kubernetes import hooks
from fairwarning.guest.agent.kubernetes.nodes import CORDONED, EVENT_ID, TAINT
from fairwarning.guest.client import ScheduledEvents
from fairwarning.guest.events import Event, Phase
from tests.guest.kubernetes_double import Double
from tests.guest.node_hooks import (
    DRAINED,
    EVENT,
    EVICT,
    FREE,
    ID,
    NODE,
    OTHER,
    drain,
    mark,
    state,
    uncordon,
)

pytestmark = pytest.mark.spec("G4")

AZURE = "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute"


# --- Draining -------------------------------------------------------------------------------------


def test_drain_marks_the_node_first_then_evicts_and_returns_when_all_is_gone(
    cluster: Double,
) -> None:
    """Cordon, taint and annotation are one call, made before any eviction."""
    cluster.pod("a", grace=2)
    cluster.pod("b", grace=2)
    cluster.pod("elsewhere", node="node-2")
    drain(cluster)
    first = [f"GET {NODE}", f"PATCH {NODE}", "GET /api/v1/pods"]
    assert cluster.calls[:3] == first
    assert sorted(cluster.calls[3:5]) == [EVICT.format("a"), EVICT.format("b")]
    assert set(cluster.calls[5:]) == {"GET /api/v1/pods"}
    assert list(cluster.pods) == ["default/elsewhere"]
    assert state(cluster) == DRAINED
    assert cluster.clock.monotonic() < 10


def test_drain_ignores_exempt_pods(cluster: Double) -> None:
    """Pods of DaemonSets, mirror pods and finished pods do not count."""
    cluster.pod("daemon", owner="DaemonSet")
    mirror = cluster.pod("static")
    mirror["metadata"]["annotations"]["kubernetes.io/config.mirror"] = "hash"
    cluster.pod("job", owner="Job", phase="Succeeded")
    cluster.pod("crashed", phase="Failed")
    cluster.pod("web", owner="ReplicaSet")
    drain(cluster)
    assert cluster.evicted == [("web", None)]
    assert len(cluster.pods) == 4


def test_remaining_pods_are_reported_at_the_deadline(cluster: Double) -> None:
    """The hook fails in time with the pods and reasons; the node stays cordoned."""
    cluster.pod("held", app="a")
    cluster.pod("slow")["takes"] = 10_000
    cluster.budgets["a"] = 0
    with pytest.raises(Unavailable) as raised:
        drain(cluster, 20)
    assert "2 pods" in raised.value.message
    assert "default/held (disruption budget default/a)" in raised.value.message
    assert "default/slow (terminating)" in raised.value.message
    assert "\n" not in raised.value.message
    assert 19 <= cluster.clock.monotonic() < 20
    assert state(cluster) == DRAINED


def test_grace_periods_are_limited_by_the_deadline(cluster: Double) -> None:
    """Long grace periods are shortened with a margin; short and missing ones stay."""
    cluster.pod("long", grace=3600)
    cluster.pod("short", grace=5)
    cluster.pod("usual")
    drain(cluster, 40)
    assert sorted(cluster.evicted) == [("long", 37), ("short", None), ("usual", None)]


def test_a_new_pod_of_the_same_name_is_not_evicted(cluster: Double) -> None:
    """A StatefulSet's pod may run on another node before we evict it."""
    cluster.pod("db-0", owner="StatefulSet")

    def comes_back(call: str) -> None:
        if call == EVICT.format("db-0"):
            pod = cluster.pod("db-0", node="node-2", owner="StatefulSet")
            pod["metadata"]["uid"] = "another"

    cluster.before = comes_back
    drain(cluster)
    assert cluster.evicted == []
    assert list(cluster.pods) == ["default/db-0"]


@pytest.mark.spec("G9")
@pytest.mark.parametrize(("rank", "seconds", "begins"), [(0, 300, 0), (49, 300, 9.8), (49, 60, 0)])
def test_drains_of_a_large_event_begin_one_after_the_other(
    cluster: Double, rank: int, seconds: float, begins: float
) -> None:
    """Within ten seconds, and at once if time is short."""
    names = [f"vm-{number}" for number in range(2, 51)]
    names.insert(rank, "vm-1")
    hooks.set_machine("vm-1")
    times: list[float] = []
    cluster.before = lambda _: times.append(cluster.clock.monotonic())
    drain(cluster, seconds, replace(EVENT, resources=tuple(names)))
    assert times[0] == pytest.approx(begins, abs=0.1)


# --- Uncordoning ----------------------------------------------------------------------------------


def test_a_node_cordoned_before_stays_cordoned(cluster: Double) -> None:
    """Only our own marks are removed."""
    cluster.nodes["node-1"]["spec"]["unschedulable"] = True
    drain(cluster)
    drain(cluster)
    assert state(cluster) == (True, {TAINT: "Reboot"}, {EVENT_ID: ID})
    uncordon(cluster)
    assert state(cluster) == (True, {}, {})


def test_uncordon_without_a_drain_changes_nothing(cluster: Double) -> None:
    """Nothing is written for an event without preparation."""
    cluster.nodes["node-1"]["spec"]["unschedulable"] = True
    uncordon(cluster)
    assert cluster.calls == [f"GET {NODE}"]


def test_mark_taints_without_eviction(cluster: Double) -> None:
    """For a freeze of seconds: no new pods, running pods stay."""
    cluster.pod("a")
    mark(cluster, OTHER)
    mark(cluster, OTHER)
    assert state(cluster) == (False, {TAINT: "Freeze"}, {EVENT_ID: OTHER.id})
    assert cluster.calls == [f"GET {NODE}", f"PATCH {NODE}", f"GET {NODE}"]
    uncordon(cluster, OTHER)
    assert state(cluster) == FREE


@pytest.mark.parametrize("first", [EVENT, OTHER])
def test_the_last_of_two_events_uncordons_the_node(cluster: Double, first: Event) -> None:
    """The end of one event does not affect the other."""
    second = OTHER if first is EVENT else EVENT
    drain(cluster, event=EVENT)
    drain(cluster, event=OTHER)
    uncordon(cluster, first)
    assert state(cluster)[0]
    assert state(cluster)[2] == {EVENT_ID: second.id, CORDONED: second.id}
    uncordon(cluster, second)
    assert state(cluster) == FREE


def test_a_marked_node_is_uncordoned_when_the_drain_is_over(cluster: Double) -> None:
    """Only the taint of the freeze stays."""
    mark(cluster, OTHER)
    drain(cluster)
    uncordon(cluster)
    assert state(cluster)[0] is False
    assert TAINT in state(cluster)[1]
    assert state(cluster)[2] == {EVENT_ID: OTHER.id}


# --- Finding the node -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resource", "provider"),
    [
        ("vm-1", f"{AZURE}/virtualMachines/VM-1"),
        ("_vm-1", f"{AZURE}/virtualMachines/vm-1"),
        ("pool_0", f"{AZURE}/virtualMachineScaleSets/pool/virtualMachines/0"),
        ("i-0abc", "aws:///eu-1a/i-0abc"),
        (f"{AZURE}/virtualMachines/vm-1".removeprefix("azure://"), f"{AZURE}/virtualMachines/vm-1"),
        ("Mine", ""),
    ],
)
def test_nodes_match_by_provider_id_or_name(
    cluster: Double, monkeypatch: pytest.MonkeyPatch, resource: str, provider: str
) -> None:
    """A providerID ends in a machine name, a scale set instance, or a full id."""
    monkeypatch.delenv("NODE_NAME")
    cluster.nodes.clear()
    cluster.node("mine", provider)
    cluster.node("other", f"{AZURE}/virtualMachineScaleSets/pool/virtualMachines/10")
    cluster.node("vm-1-also", f"{AZURE}/virtualMachines/also-vm-1")
    drain(cluster, event=replace(EVENT, resources=(resource,)))
    assert [name for name in cluster.nodes if state(cluster, name)[0]] == ["mine"]


def test_provider_ids_precede_node_names(cluster: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node may have the name of another machine."""
    monkeypatch.delenv("NODE_NAME")
    cluster.node("vm-1", "x://cloud/vm-2")
    drain(cluster)
    assert state(cluster) == DRAINED
    assert state(cluster, "vm-1") == FREE


def test_an_unknown_node(cluster: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is changed, and the text says what to set."""
    monkeypatch.setenv("NODE_NAME", "node-9")
    with pytest.raises(NotFound, match="'node-9'"):
        drain(cluster)
    monkeypatch.delenv("NODE_NAME")
    with pytest.raises(NotFound, match=r"'vm-9' is not a node of the cluster: set NODE_NAME"):
        drain(cluster, event=replace(EVENT, resources=("vm-9",)))
    cluster.node("node-2", "x://cloud-2/vm-1")
    with pytest.raises(NotFound, match=r"matches several nodes \(node-1, node-2\): set NODE_NAME"):
        drain(cluster)
    assert not [call for call in cluster.calls if not call.startswith("GET")]


def test_the_agent_tells_the_hooks_the_name_of_the_machine(
    cluster: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a function of the user calls them. Instance metadata is not asked: it may be silent.

    Without an agent, they do not guess.
    """
    monkeypatch.delenv("NODE_NAME")
    monkeypatch.setattr(ScheduledEvents, "me", lambda _: pytest.fail("instance metadata is asked"))
    shared = replace(EVENT, resources=("vm-0", "vm-1"))
    with pytest.raises(NotFound, match="names several machines: set NODE_NAME"):
        drain(cluster, event=shared)
    mine = HookSettings("mine", Phase.SCHEDULED, HookKind.CALL, call="mine:drain")
    agent = Agent(AgentConfig(hooks=(mine,)))
    agent._name = "VM-1"
    agent._start_kubernetes()
    drain(cluster, event=shared)
    assert state(cluster) == DRAINED
