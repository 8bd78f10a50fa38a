"""The Kubernetes hooks with lightkube and real HTTP against a double; only time is virtual."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from lightkube import Client, codecs

from fairwarning.core.errors import FairwarningError, NotFound, Refused, Unavailable
from fairwarning.guest.agent import cluster as cluster_module
from fairwarning.guest.agent import kubernetes
from fairwarning.guest.agent.cluster import CORDONED, EVENT_ID, NODE_NAME, TAINT
from fairwarning.guest.agent.config import GroupSettings, HookKind, HookSettings, parse
from fairwarning.guest.agent.group import create_peers
from fairwarning.guest.agent.kubernetes import KubernetesNodes
from fairwarning.guest.agent.plan import GroupMembers, RunHook
from fairwarning.guest.agent.work import create_work
from fairwarning.guest.client import ScheduledEvents
from fairwarning.guest.events import Event, EventStatus, EventType
from fairwarning.guest.watch import Phase
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until
from tests.guest.kubernetes_double import Clock, Double, failure, serving

ID = "602D9444-D2CD-49C7-8624-8643E7171297"
EVENT = Event(ID, EventType.REBOOT, EventStatus.SCHEDULED, ("vm-1",))
OTHER = replace(EVENT, id="B0000000-0000-0000-0000-000000000002", type=EventType.FREEZE)
AZURE = "azure:///subscriptions/s/resourceGroups/g/providers/Microsoft.Compute"
NODE = "/api/v1/nodes/node-1"
EVICT = "POST /api/v1/namespaces/default/pods/{}/eviction"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Double]:
    """A cluster with this machine's node, which NODE_NAME names."""
    clock = Clock()
    double = Double(clock)
    double.node("node-1", "x://cloud/vm-1")
    for proxy in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(proxy, raising=False)
    monkeypatch.setenv("NODE_NAME", "node-1")
    monkeypatch.setattr(kubernetes, "time", clock)
    monkeypatch.setattr(cluster_module, "time", clock)
    with serving(double, tmp_path) as config:
        monkeypatch.setenv("KUBECONFIG", str(config))
        yield double


def drain(double: Double, seconds: float = 300, event: Event = EVENT) -> None:
    """Run the hook."""
    kubernetes.drain(event, Phase.SCHEDULED, double.clock.after(seconds), False)


def mark(double: Double, event: Event = EVENT) -> None:
    """Run the hook."""
    kubernetes.mark(event, Phase.SCHEDULED, double.clock.after(60), False)


def uncordon(double: Double, event: Event = EVENT) -> None:
    """Run the hook."""
    kubernetes.uncordon(event, Phase.OVER, double.clock.after(60), False)


def state(double: Double, name: str = "node-1") -> tuple[bool, dict[str, str], dict[str, str]]:
    """Return whether a node is cordoned, its taints, and its annotations."""
    node = double.nodes[name]
    taints = {taint["key"]: taint.get("value", "") for taint in node["spec"].get("taints", [])}
    return node["spec"].get("unschedulable", False), taints, node["metadata"]["annotations"]


DRAINED = (True, {TAINT: "Reboot"}, {EVENT_ID: ID, CORDONED: ID})
FREE: tuple[bool, dict[str, str], dict[str, str]] = (False, {}, {})


# --- Draining -------------------------------------------------------------------------------------


@pytest.mark.spec("G4")
def test_drain_marks_the_node_first_then_evicts_and_returns_when_all_is_gone(
    cluster: Double,
) -> None:
    """Cordon, taint and annotation are one call, made before any eviction."""
    cluster.pod("a", grace=2)
    cluster.pod("b", grace=2)
    cluster.pod("elsewhere", node="node-2")
    drain(cluster)
    first = [f"GET {NODE}", f"PATCH {NODE}", "GET /api/v1/pods"]
    assert cluster.calls[:5] == [*first, EVICT.format("a"), EVICT.format("b")]
    assert set(cluster.calls[5:]) == {"GET /api/v1/pods"}
    assert list(cluster.pods) == ["default/elsewhere"]
    assert state(cluster) == DRAINED
    assert cluster.clock.monotonic() < 10


@pytest.mark.spec("G4")
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


@pytest.mark.spec("G4")
def test_disruption_budgets(cluster: Double) -> None:
    """A pod whose budget forbids eviction is retried, and no other pod waits for it."""
    cluster.pod("a1", app="a", grace=1)
    cluster.pod("a2", app="a", grace=1)
    cluster.pod("b", grace=1)
    cluster.budgets["a"] = 1

    def another_is_up(now: float) -> None:
        if now > 40:
            cluster.budgets["a"] = 1

    cluster.clock.each.append(another_is_up)
    drain(cluster)
    assert cluster.evicted == [("a1", None), ("b", None), ("a2", None)]
    assert 40 < cluster.clock.monotonic() < 60
    assert cluster.calls.count(EVICT.format("a1")) == 1
    assert 1 < cluster.calls.count(EVICT.format("a2")) < 41


@pytest.mark.spec("G4")
def test_remaining_pods_are_reported_at_the_deadline(cluster: Double) -> None:
    """The hook fails in time with the pods and reasons; the node stays cordoned."""
    cluster.pod("held", app="a")
    cluster.pod("slow")["takes"] = 10_000
    cluster.budgets["a"] = 0
    with pytest.raises(Unavailable) as raised:
        drain(cluster, 20)
    assert "2 pods" in raised.value.message
    assert "default/held (it would violate the pod's disruption budget)" in raised.value.message
    assert "default/slow (terminating)" in raised.value.message
    assert "\n" not in raised.value.message
    assert 19 <= cluster.clock.monotonic() < 20
    assert state(cluster) == DRAINED


@pytest.mark.spec("G4")
def test_grace_periods_are_limited_by_the_deadline(cluster: Double) -> None:
    """Long grace periods are shortened with a margin; short and missing ones stay."""
    cluster.pod("long", grace=3600)
    cluster.pod("short", grace=5)
    cluster.pod("usual")
    drain(cluster, 40)
    assert cluster.evicted == [("long", 37), ("short", None), ("usual", None)]


@pytest.mark.spec("G4")
def test_a_grace_period_is_never_zero(cluster: Double) -> None:
    """Zero would mean immediate deletion."""
    cluster.pod("a", grace=60)
    with pytest.raises(Unavailable, match="PodsRemain"):
        drain(cluster, 0.9)
    assert cluster.evicted == [("a", 1)]


@pytest.mark.spec("G4")
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


@pytest.mark.spec("G4")
def test_a_pod_that_is_already_terminating(cluster: Double) -> None:
    """It is not evicted again."""
    pod = cluster.pod("a")
    pod["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    pod["ends"] = 12.0
    drain(cluster)
    assert cluster.evicted == []
    assert cluster.clock.monotonic() >= 12


# --- Failures -------------------------------------------------------------------------------------


@pytest.mark.spec("G4")
def test_an_api_outage_is_retried(cluster: Double) -> None:
    """Broken connections and busy servers are retried."""
    cluster.pod("a", grace=1)
    cluster.away = True
    cluster.failing = [failure(503, "not yet"), failure(429, "slow down"), None, failure(500, "?")]

    def back(now: float) -> None:
        cluster.away = now < 60

    cluster.clock.each.append(back)
    drain(cluster)
    assert cluster.evicted == [("a", None)]
    assert state(cluster) == DRAINED
    assert 60 <= cluster.clock.monotonic() < 100


@pytest.mark.spec("G4")
@pytest.mark.parametrize("seconds", [0, 3, 30])
def test_a_long_api_outage_ends_at_the_deadline(cluster: Double, seconds: int) -> None:
    """The hook fails just before it, so that the reason is reported."""
    cluster.away = True
    with pytest.raises(Unavailable, match="the deadline has passed"):
        drain(cluster, seconds)
    assert seconds - 1 <= cluster.clock.monotonic() <= seconds


@pytest.mark.spec("G4")
def test_an_api_outage_does_not_hide_remaining_pods(cluster: Double) -> None:
    """The error has the pods of the last query, and the failure."""
    cluster.pod("a", grace=600)
    cluster.before = lambda call: setattr(cluster, "away", cluster.away or "eviction" in call)
    with pytest.raises(Unavailable) as raised:
        drain(cluster, 20)
    assert "default/a" in raised.value.message
    assert "the Kubernetes API failed" in raised.value.message


@pytest.mark.spec("G4")
def test_missing_permissions_fail_at_once(cluster: Double) -> None:
    """A retry would not help."""
    cluster.failing = [None, failure(403, "nodes is forbidden")]
    with pytest.raises(Refused, match=r"nodes is forbidden.*daemonset\.yaml"):
        drain(cluster)
    assert cluster.clock.monotonic() == 0


@pytest.mark.spec("G4")
def test_concurrent_changes_of_the_node_are_kept(cluster: Double) -> None:
    """Taints are replaced as a whole, so only on the version that was read."""
    theirs = {"key": "node.kubernetes.io/disk-pressure", "effect": "NoSchedule"}

    def meanwhile(call: str) -> None:
        if call == f"PATCH {NODE}" and "taints" not in cluster.nodes["node-1"]["spec"]:
            cluster.nodes["node-1"]["spec"]["taints"] = [theirs]
            cluster._touched(cluster.nodes["node-1"])

    cluster.before = meanwhile
    drain(cluster)
    assert state(cluster)[1] == {theirs["key"]: "", TAINT: "Reboot"}
    uncordon(cluster)
    assert cluster.nodes["node-1"]["spec"]["taints"] == [theirs]


@pytest.mark.spec("G4")
def test_errors_without_lightkube_or_a_cluster(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The text says what to install or to set."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(Refused, match="KUBECONFIG"):
        KubernetesNodes("vm-1")
    monkeypatch.setitem(sys.modules, "lightkube", None)
    with pytest.raises(Refused, match=r"pip install 'fairwarning\[kubernetes\]'"):
        KubernetesNodes("vm-1")
    later = datetime.now(UTC) + timedelta(seconds=60)
    with pytest.raises(Refused, match=r"pip install 'fairwarning\[kubernetes\]'"):
        kubernetes.drain(EVENT, Phase.SCHEDULED, later, False)


@pytest.mark.spec("G4")
def test_a_hook_in_the_wrong_phase_does_nothing(cluster: Double) -> None:
    """A configuration error must not drain a recovered node or uncordon it too early."""
    deadline = cluster.clock.after(60)
    with pytest.raises(Refused, match="scheduled"):
        kubernetes.drain(EVENT, Phase.OVER, deadline, False)
    with pytest.raises(Refused, match="over"):
        kubernetes.uncordon(EVENT, Phase.SCHEDULED, deadline, False)
    assert cluster.calls == []


# --- Killed in the middle -------------------------------------------------------------------------


class Killed(BaseException):
    """The agent was killed."""


class KilledClient:
    """A client that raises `Killed` before or after its n-th call."""

    def __init__(self, client: Client, calls: list[int], after: bool) -> None:
        self._client, self._calls, self._after = client, calls, after

    def close(self) -> None:
        self._client.close()

    def __getattr__(self, name: str) -> Callable[..., object]:
        def call(*positional: object, **named: object) -> object:
            self._calls[0] -= 1
            if self._calls[0] == 0 and not self._after:
                raise Killed
            result = getattr(self._client, name)(*positional, **named)
            result = list(result) if name == "list" else result
            if self._calls[0] == 0:
                raise Killed
            return result

        return call


def killed_at(number: int, after: bool, what: Callable[[], None]) -> bool:
    """Whether the hook was killed at that call; otherwise it made fewer."""
    connect = cluster_module.connect
    calls = [number]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cluster_module, "connect", lambda s: KilledClient(connect(s), calls, after))
        try:
            what()
        except Killed:
            return True
    return False


@pytest.mark.spec("G4", "G6")
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(1, 8))
def test_a_drain_that_is_killed_at_any_call_runs_again(
    cluster: Double, number: int, after: bool
) -> None:
    """The final state is the same, no pod is evicted twice, and our cordon is marked as ours."""
    cluster.pod("a", grace=1)
    cluster.pod("b", grace=1)
    assert killed_at(number, after, lambda: drain(cluster)) == (number <= 6)
    drain(cluster)
    assert state(cluster) == DRAINED
    assert not cluster.pods
    assert sorted(cluster.evicted) == [("a", None), ("b", None)]
    assert cluster.calls.count(f"PATCH {NODE}") == 1
    uncordon(cluster)
    assert state(cluster) == FREE


@pytest.mark.spec("G4", "G6")
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("number", range(1, 4))
def test_an_uncordon_that_is_killed_at_any_call_runs_again(
    cluster: Double, number: int, after: bool
) -> None:
    """The node is unmarked at the end, even if it was before."""
    drain(cluster)
    assert killed_at(number, after, lambda: uncordon(cluster)) == (number <= 2)
    uncordon(cluster)
    uncordon(cluster)
    assert state(cluster) == FREE
    assert cluster.calls.count(f"PATCH {NODE}") == 2


@pytest.mark.spec("G4")
@pytest.mark.parametrize("number", range(6))
def test_a_lost_response(cluster: Double, number: int) -> None:
    """The next query shows the change, and it is not repeated."""
    cluster.pod("a", grace=1)
    cluster.pod("b", grace=1)
    cluster.lost = number
    drain(cluster)
    assert state(cluster) == DRAINED
    assert sorted(cluster.evicted) == [("a", None), ("b", None)]
    assert cluster.calls.count(f"PATCH {NODE}") == 1


# --- Uncordoning ----------------------------------------------------------------------------------


@pytest.mark.spec("G4")
def test_a_node_cordoned_before_stays_cordoned(cluster: Double) -> None:
    """Only our own marks are removed."""
    cluster.nodes["node-1"]["spec"]["unschedulable"] = True
    drain(cluster)
    drain(cluster)
    assert state(cluster) == (True, {TAINT: "Reboot"}, {EVENT_ID: ID})
    uncordon(cluster)
    assert state(cluster) == (True, {}, {})


@pytest.mark.spec("G4")
def test_uncordon_without_a_drain_changes_nothing(cluster: Double) -> None:
    """Nothing is written for an event without preparation."""
    cluster.nodes["node-1"]["spec"]["unschedulable"] = True
    uncordon(cluster)
    assert cluster.calls == [f"GET {NODE}"]


@pytest.mark.spec("G4")
def test_mark_taints_without_eviction(cluster: Double) -> None:
    """For a freeze of seconds: no new pods, running pods stay."""
    cluster.pod("a")
    mark(cluster, OTHER)
    mark(cluster, OTHER)
    assert state(cluster) == (False, {TAINT: "Freeze"}, {EVENT_ID: OTHER.id})
    assert cluster.calls == [f"GET {NODE}", f"PATCH {NODE}", f"GET {NODE}"]
    uncordon(cluster, OTHER)
    assert state(cluster) == FREE


@pytest.mark.spec("G4")
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


@pytest.mark.spec("G4")
def test_a_marked_node_is_uncordoned_when_the_drain_is_over(cluster: Double) -> None:
    """Only the taint of the freeze stays."""
    mark(cluster, OTHER)
    drain(cluster)
    uncordon(cluster)
    assert state(cluster)[0] is False
    assert TAINT in state(cluster)[1]
    assert state(cluster)[2] == {EVENT_ID: OTHER.id}


@pytest.mark.spec("G4")
def test_a_cancelled_event_ends_its_drain(cluster: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent cannot stop the function, so `uncordon` does, and then unmarks the node."""
    cluster.pod("held", app="a")
    cluster.budgets["a"] = 0
    resume, sleeping = threading.Event(), threading.Event()
    real_sleep = cluster.clock.sleep

    def sleep(seconds: float) -> None:
        sleeping.set()
        assert resume.wait(LIMIT_SECONDS)
        real_sleep(seconds)

    monkeypatch.setattr(cluster.clock, "sleep", sleep)
    errors: list[FairwarningError] = []

    def run() -> None:
        try:
            drain(cluster)
        except FairwarningError as error:
            errors.append(error)

    draining = threading.Thread(target=run)
    draining.start()
    assert sleeping.wait(LIMIT_SECONDS)
    uncordoning = threading.Thread(target=lambda: uncordon(cluster))
    uncordoning.start()
    wait_until(lambda: ID in kubernetes._over)
    assert state(cluster) == DRAINED
    resume.set()
    draining.join()
    uncordoning.join()
    assert "the event is over" in errors[0].message
    assert cluster.calls.count(EVICT.format("held")) == 1
    assert state(cluster) == FREE
    assert not kubernetes._over


# --- Finding the node -----------------------------------------------------------------------------


@pytest.mark.spec("G4")
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


@pytest.mark.spec("G4")
def test_provider_ids_precede_node_names(cluster: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node may have the name of another machine."""
    monkeypatch.delenv("NODE_NAME")
    cluster.node("vm-1", "x://cloud/vm-2")
    drain(cluster)
    assert state(cluster) == DRAINED
    assert state(cluster, "vm-1") == FREE


@pytest.mark.spec("G4")
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


@pytest.mark.spec("G4")
def test_an_event_of_several_machines_drains_this_one(
    cluster: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Instance metadata has its name, and may be unavailable for a moment."""
    monkeypatch.delenv("NODE_NAME")
    names: list[str | None] = [None, "vm-1"]

    def me(self: ScheduledEvents) -> str:
        name = names.pop(0)
        if name is None:
            raise Unavailable("NoAnswer", "the endpoint does not answer")
        return name

    monkeypatch.setattr(ScheduledEvents, "me", me)
    cluster.node("node-0", "x://cloud/vm-0")
    drain(cluster, event=replace(EVENT, resources=("vm-0", "vm-1")))
    assert state(cluster) == DRAINED
    assert state(cluster, "node-0") == FREE


@pytest.mark.spec("G4")
def test_the_hooks_as_configured_functions(cluster: Double) -> None:
    """The last line of a failure names the remaining pods; the rest is for the log."""
    hook = HookSettings(
        "d", Phase.SCHEDULED, HookKind.CALL, call="fairwarning.guest.agent.kubernetes:drain"
    )
    cluster.pod("a", app="a")
    cluster.budgets["a"] = 0
    work = create_work(RunHook(hook, Phase.SCHEDULED, EVENT, cluster.clock.after(9)), "vm-1", 0.0)
    assert work.run() == "raised an error"
    assert "default/a" in work.output().splitlines()[-1]
    cluster.budgets["a"] = 1
    work = create_work(RunHook(hook, Phase.SCHEDULED, EVENT, cluster.clock.after(90)), "vm-1", 0.0)
    assert work.run() == ""


# --- The manifest ---------------------------------------------------------------------------------


def used(call: str) -> tuple[str, str]:
    """Return the permission that a call needs: a resource and a verb."""
    method, path = call.split()
    words = [word for word in path.split("/") if word]
    if words[-1] == "eviction":
        return "pods/eviction", "create"
    if "leases" in words:
        return "leases", "get"
    if words[-1] in {"nodes", "pods"}:
        return words[-1], "list"
    return words[-2], {"GET": "get", "PATCH": "patch"}[method]


@pytest.mark.spec("G4")
def test_the_manifest_grants_exactly_the_permissions_used(
    pair: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The roles allow what the API was asked for, and nothing else."""
    pair.pod("a")
    with nodes() as first:
        first.signal_ready(SHARED)
        first.members(SHARED)
    drain(pair)
    monkeypatch.delenv("NODE_NAME")
    uncordon(pair)
    rules = [rule for item in manifest() if item["kind"].endswith("Role") for rule in item["rules"]]
    granted = {
        (what, verb) for rule in rules for what in rule["resources"] for verb in rule["verbs"]
    }
    assert {used(call) for call in pair.calls} == granted


@pytest.mark.spec("G4")
def test_the_configuration_in_the_manifest() -> None:
    """The hooks exist, the probe uses the agent's port, and the journal is on the node."""
    (text,) = [item["data"]["agent.toml"] for item in manifest() if item["kind"] == "ConfigMap"]
    config = parse(text)
    calls = [hook.call.partition(":") for hook in config.hooks]
    assert {module for module, _, _ in calls} == {kubernetes.__name__}
    assert all(callable(getattr(kubernetes, name)) for _, _, name in calls)
    assert config.group == GroupSettings(kubernetes=True)
    (daemons,) = [item for item in manifest() if item["kind"] == "DaemonSet"]
    pod = daemons["spec"]["template"]["spec"]
    (agent,) = pod["containers"]
    probe = agent["livenessProbe"]["httpGet"]
    assert config.listen == f"{probe['host']}:{probe['port']}"
    mounts = {mount["mountPath"]: mount["name"] for mount in agent["volumeMounts"]}
    kept = {volume["name"] for volume in pod["volumes"] if "hostPath" in volume}
    assert mounts[config.state.as_posix()] in kept
    assert NODE_NAME in {variable["name"] for variable in agent["env"]}


def manifest() -> list[dict[str, Any]]:
    """Return the objects of the example, checked against their schemas."""
    path = Path(__file__).parents[2] / "examples" / "kubernetes" / "daemonset.yaml"
    loaded: list[Any] = list(codecs.load_all_yaml(path.read_text("utf-8")))
    return [item.to_dict() for item in loaded]


# --- Groups ---------------------------------------------------------------------------------------

SHARED = replace(EVENT, resources=("vm-1", "vm-2"))
READY = f"fairwarning.dev/ready-{ID.lower()}"


@pytest.fixture
def pair(cluster: Double) -> Double:
    """Create two nodes; the first is this machine's."""
    cluster.node("node-2", "x://cloud/vm-2")
    cluster.lease("node-1")
    cluster.lease("node-2")
    return cluster


@contextmanager
def nodes(name: str = "vm-1") -> Iterator[KubernetesNodes]:
    """Return the peer directory of an agent."""
    peers = create_peers(GroupSettings(kubernetes=True), name)
    assert isinstance(peers, KubernetesNodes)
    try:
        yield peers
    finally:
        for thread in threading.enumerate():
            if thread.name == "forget":
                thread.join()
        peers._client.close()


@pytest.mark.spec("G5")
def test_machines_see_each_others_readiness_on_their_nodes(
    pair: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signalling makes no call by itself, and each machine writes once."""
    with nodes() as first, nodes("vm-2") as second:
        first.signal_ready(SHARED)
        assert pair.calls == []
        assert first.members(SHARED) == GroupMembers(
            frozenset({"vm-1", "vm-2"}), frozenset({"vm-1"})
        )
        monkeypatch.setenv("NODE_NAME", "node-2")
        assert second.members(SHARED).ready == {"vm-1"}
        second.signal_ready(SHARED)
        assert second.members(SHARED).ready == {"vm-1", "vm-2"}
        second.members(SHARED)
        assert state(pair, "node-2")[2] == {READY: ID}
        assert len([call for call in pair.calls if call.startswith("PATCH")]) == 2
        assert first.members(replace(SHARED, id=OTHER.id)).ready == set()


@pytest.mark.spec("G5")
def test_finished_events_are_removed(pair: Double) -> None:
    """This includes annotations of an earlier agent; those of others stay."""
    with nodes() as first:
        first.signal_ready(SHARED)
        first.members(SHARED)
    drain(pair)
    with nodes() as first:
        first.forget(ID.lower())
    assert state(pair) == DRAINED


@pytest.mark.spec("G5")
def test_a_kubelet_without_renewals_is_not_alive(pair: Double) -> None:
    """Timed by our own clock since the last renewal seen; a node may also be not ready."""
    with nodes() as first:
        assert first.members(SHARED).alive == {"vm-1", "vm-2"}
        pair.clock.sleep(20)
        pair.lease("node-2", "2030-01-01T00:00:10.000000Z")
        assert first.members(SHARED).alive == {"vm-1", "vm-2"}
        pair.clock.sleep(20)
        assert first.members(SHARED).alive == {"vm-1", "vm-2"}
        pair.clock.sleep(20)
        assert first.members(SHARED).alive == {"vm-1"}
        pair.lease("node-2", "2030-01-01T00:00:20.000000Z")
        assert first.members(SHARED).alive == {"vm-1", "vm-2"}
        pair.nodes["node-2"]["status"]["conditions"][0]["status"] = "Unknown"
        assert first.members(SHARED).alive == {"vm-1"}


@pytest.mark.spec("G5")
def test_a_machine_becomes_alive_with_its_node(pair: Double) -> None:
    """The cluster is searched for it, but not in every query."""
    del pair.nodes["node-2"], pair.leases["node-2"]
    with nodes() as first:
        for _ in range(5):
            assert first.members(SHARED).alive == {"vm-1"}
        assert pair.calls.count("GET /api/v1/nodes") == 1
        pair.node("node-3", "x://cloud/vm-2")
        pair.clock.sleep(30)
        assert first.members(SHARED).alive == {"vm-1", "vm-2"}
        del pair.nodes["node-3"]
        assert first.members(SHARED).alive == {"vm-1"}


@pytest.mark.spec("G5")
def test_api_failures_raise_oserror(pair: Double) -> None:
    """The agent queries again, and readiness is not lost."""
    with nodes() as first:
        first.signal_ready(SHARED)
        pair.failing = [failure(503, "not now")]
        with pytest.raises(OSError, match="not now"):
            first.members(SHARED)
        pair.failing = [failure(403, "nodes is forbidden")]
        with pytest.raises(OSError, match="forbidden"):
            first.members(SHARED)
        assert first.members(SHARED).ready == {"vm-1"}


@pytest.mark.spec("G5")
def test_a_machine_without_a_node_reports_it(pair: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    """It cannot signal readiness."""
    monkeypatch.delenv("NODE_NAME")
    del pair.nodes["node-1"]
    with nodes() as first:
        first.signal_ready(SHARED)
        with pytest.raises(OSError, match="'vm-1'"):
            first.members(SHARED)
