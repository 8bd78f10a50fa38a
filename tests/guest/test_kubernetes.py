"""lightkube talks real HTTP to a double of the Kubernetes API here; only time is virtual."""

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
from fairwarning.guest.watch import EventPhase
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
    """A cluster with one node, this machine's, which the environment names."""
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
    kubernetes.drain(event, EventPhase.SCHEDULED, double.clock.after(seconds), False)


def mark(double: Double, event: Event = EVENT) -> None:
    """Run the hook."""
    kubernetes.mark(event, EventPhase.SCHEDULED, double.clock.after(60), False)


def uncordon(double: Double, event: Event = EVENT) -> None:
    """Run the hook."""
    kubernetes.uncordon(event, EventPhase.OVER, double.clock.after(60), False)


def state(double: Double, name: str = "node-1") -> tuple[bool, dict[str, str], dict[str, str]]:
    """Whether a node is cordoned, its taints, and its annotations."""
    node = double.nodes[name]
    taints = {one["key"]: one.get("value", "") for one in node["spec"].get("taints", [])}
    return node["spec"].get("unschedulable", False), taints, node["metadata"]["annotations"]


DRAINED = (True, {TAINT: "Reboot"}, {EVENT_ID: ID, CORDONED: ID})
FREE: tuple[bool, dict[str, str], dict[str, str]] = (False, {}, {})


# --- Draining -------------------------------------------------------------------------------------


@pytest.mark.spec("G4")
def test_drain_marks_the_node_first_then_evicts_and_returns_when_all_is_gone(
    cluster: Double,
) -> None:
    """Cordon, taint and reason are one call, and no pod goes before it."""
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
def test_drain_leaves_alone_what_would_not_go_or_has_ended(cluster: Double) -> None:
    """Pods of DaemonSets, mirrors of static pods, and finished ones do not count."""
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
def test_a_budget_holds_a_pod_back_until_it_allows(cluster: Double) -> None:
    """A pod whose budget forbids it is asked again, and no other waits for it."""
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
def test_what_remains_at_the_deadline_is_told(cluster: Double) -> None:
    """The hook fails in time, names the pods and says why; the node stays cordoned."""
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
def test_a_pod_has_no_more_time_to_end_than_there_is(cluster: Double) -> None:
    """Long grace periods are cut, with a moment to spare; short ones and missing ones stay."""
    cluster.pod("long", grace=3600)
    cluster.pod("short", grace=5)
    cluster.pod("usual")
    drain(cluster, 40)
    assert cluster.evicted == [("long", 37), ("short", None), ("usual", None)]


@pytest.mark.spec("G4")
def test_a_grace_period_is_never_cut_to_nothing(cluster: Double) -> None:
    """Zero would mean to delete without any ending."""
    cluster.pod("a", grace=60)
    with pytest.raises(Unavailable, match="PodsRemain"):
        drain(cluster, 0.9)
    assert cluster.evicted == [("a", 1)]


@pytest.mark.spec("G4")
def test_a_pod_of_the_same_name_elsewhere_is_not_hit(cluster: Double) -> None:
    """A StatefulSet's pod may be back on another node before we ask for its end."""
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
def test_a_pod_that_somebody_else_deletes_is_waited_for(cluster: Double) -> None:
    """It is not asked again."""
    pod = cluster.pod("a")
    pod["metadata"]["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    pod["ends"] = 12.0
    drain(cluster)
    assert cluster.evicted == []
    assert cluster.clock.monotonic() >= 12


# --- Trouble --------------------------------------------------------------------------------------


@pytest.mark.spec("G4")
def test_an_api_that_is_away_is_waited_for(cluster: Double) -> None:
    """Connections that break, and servers that are busy, are tried again."""
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
def test_an_api_that_stays_away_is_given_up_at_the_deadline(cluster: Double, seconds: int) -> None:
    """A moment before it, so that the reason is heard."""
    cluster.away = True
    with pytest.raises(Unavailable, match="the deadline has passed"):
        drain(cluster, seconds)
    assert seconds - 1 <= cluster.clock.monotonic() <= seconds


@pytest.mark.spec("G4")
def test_an_api_that_goes_away_in_the_middle_does_not_hide_what_remains(cluster: Double) -> None:
    """The pods of the last look are told, and the trouble."""
    cluster.pod("a", grace=600)
    cluster.before = lambda call: setattr(cluster, "away", cluster.away or "eviction" in call)
    with pytest.raises(Unavailable) as raised:
        drain(cluster, 20)
    assert "default/a" in raised.value.message
    assert "the Kubernetes API failed" in raised.value.message


@pytest.mark.spec("G4")
def test_missing_rights_are_told_at_once(cluster: Double) -> None:
    """Waiting would not help."""
    cluster.failing = [None, failure(403, "nodes is forbidden")]
    with pytest.raises(Refused, match=r"nodes is forbidden.*daemonset\.yaml"):
        drain(cluster)
    assert cluster.clock.monotonic() == 0


@pytest.mark.spec("G4")
def test_a_change_of_the_node_by_somebody_else_is_not_undone(cluster: Double) -> None:
    """Taints are written as a whole, so only onto the node as it was read."""
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
def test_without_lightkube_or_a_cluster_the_way_out_is_told(
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
        kubernetes.drain(EVENT, EventPhase.SCHEDULED, later, False)


@pytest.mark.spec("G4")
def test_a_hook_in_the_wrong_phase_does_nothing(cluster: Double) -> None:
    """A slip in the configuration must not drain a node that is back, or free one too early."""
    deadline = cluster.clock.after(60)
    with pytest.raises(Refused, match="scheduled"):
        kubernetes.drain(EVENT, EventPhase.OVER, deadline, False)
    with pytest.raises(Refused, match="over"):
        kubernetes.uncordon(EVENT, EventPhase.SCHEDULED, deadline, False)
    assert cluster.calls == []


# --- Killed in the middle -------------------------------------------------------------------------


class Killed(BaseException):
    """The agent is no more."""


class Mortal:
    """A client whose user is killed before, or after, its n-th call."""

    def __init__(self, client: Client, calls: list[int], after: bool) -> None:
        self._client, self._calls, self._after = client, calls, after

    def close(self) -> None:
        self._client.close()

    def __getattr__(self, name: str) -> Callable[..., object]:
        def call(*positional: object, **named: object) -> object:
            self._calls[0] -= 1
            if self._calls[0] == 0 and not self._after:
                raise Killed
            answer = getattr(self._client, name)(*positional, **named)
            answer = list(answer) if name == "list" else answer
            if self._calls[0] == 0:
                raise Killed
            return answer

        return call


def killed_at(number: int, after: bool, what: Callable[[], None]) -> bool:
    """Whether it was killed at that call; else it had fewer."""
    connect = cluster_module.connect
    calls = [number]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(cluster_module, "connect", lambda s: Mortal(connect(s), calls, after))
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
    """The end is the same, no pod was asked twice, and what we cordoned can be told as ours."""
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
    """The node is free at the end, also if it was before."""
    drain(cluster)
    assert killed_at(number, after, lambda: uncordon(cluster)) == (number <= 2)
    uncordon(cluster)
    uncordon(cluster)
    assert state(cluster) == FREE
    assert cluster.calls.count(f"PATCH {NODE}") == 2


@pytest.mark.spec("G4")
@pytest.mark.parametrize("number", range(6))
def test_an_answer_that_is_lost_does_no_harm(cluster: Double, number: int) -> None:
    """What was carried out is seen at the next look, and not done again."""
    cluster.pod("a", grace=1)
    cluster.pod("b", grace=1)
    cluster.lost = number
    drain(cluster)
    assert state(cluster) == DRAINED
    assert sorted(cluster.evicted) == [("a", None), ("b", None)]
    assert cluster.calls.count(f"PATCH {NODE}") == 1


# --- Giving it back -------------------------------------------------------------------------------


@pytest.mark.spec("G4")
def test_a_node_that_somebody_else_cordoned_stays_cordoned(cluster: Double) -> None:
    """Our marks go, theirs stays."""
    cluster.nodes["node-1"]["spec"]["unschedulable"] = True
    drain(cluster)
    drain(cluster)
    assert state(cluster) == (True, {TAINT: "Reboot"}, {EVENT_ID: ID})
    uncordon(cluster)
    assert state(cluster) == (True, {}, {})


@pytest.mark.spec("G4")
def test_uncordon_changes_nothing_that_we_did_not_do(cluster: Double) -> None:
    """An event that was never prepared for is over: nothing is written."""
    cluster.nodes["node-1"]["spec"]["unschedulable"] = True
    uncordon(cluster)
    assert cluster.calls == [f"GET {NODE}"]


@pytest.mark.spec("G4")
def test_mark_taints_without_eviction(cluster: Double) -> None:
    """For a freeze of seconds: nothing new comes, what runs stays."""
    cluster.pod("a")
    mark(cluster, OTHER)
    mark(cluster, OTHER)
    assert state(cluster) == (False, {TAINT: "Freeze"}, {EVENT_ID: OTHER.id})
    assert cluster.calls == [f"GET {NODE}", f"PATCH {NODE}", f"GET {NODE}"]
    uncordon(cluster, OTHER)
    assert state(cluster) == FREE


@pytest.mark.spec("G4")
@pytest.mark.parametrize("first", [EVENT, OTHER])
def test_of_two_events_the_last_to_end_gives_the_node_back(cluster: Double, first: Event) -> None:
    """One that is over takes nothing from the other."""
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
def test_an_event_that_is_called_off_ends_its_drain(
    cluster: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent cannot end the function. So `uncordon` does, and the node is free afterwards."""
    cluster.pod("held", app="a")
    cluster.budgets["a"] = 0
    goes_on, asked = threading.Event(), threading.Event()
    passes = cluster.clock.sleep

    def sleep(seconds: float) -> None:
        asked.set()
        assert goes_on.wait(LIMIT_SECONDS)
        passes(seconds)

    monkeypatch.setattr(cluster.clock, "sleep", sleep)
    ends: list[FairwarningError] = []

    def run() -> None:
        try:
            drain(cluster)
        except FairwarningError as error:
            ends.append(error)

    draining = threading.Thread(target=run)
    draining.start()
    assert asked.wait(LIMIT_SECONDS)
    freeing = threading.Thread(target=lambda: uncordon(cluster))
    freeing.start()
    wait_until(lambda: ID in kubernetes._over)
    assert state(cluster) == DRAINED
    goes_on.set()
    draining.join()
    freeing.join()
    assert "the event is over" in ends[0].message
    assert cluster.calls.count(EVICT.format("held")) == 1
    assert state(cluster) == FREE
    assert not kubernetes._over


# --- Which node -----------------------------------------------------------------------------------


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
def test_the_node_is_found_by_its_provider_else_by_its_name(
    cluster: Double, monkeypatch: pytest.MonkeyPatch, resource: str, provider: str
) -> None:
    """Names of machines, of instances of sets, and whole ids are the ends of a providerID."""
    monkeypatch.delenv("NODE_NAME")
    cluster.nodes.clear()
    cluster.node("mine", provider)
    cluster.node("other", f"{AZURE}/virtualMachineScaleSets/pool/virtualMachines/10")
    cluster.node("vm-1-also", f"{AZURE}/virtualMachines/also-vm-1")
    drain(cluster, event=replace(EVENT, resources=(resource,)))
    assert [name for name in cluster.nodes if state(cluster, name)[0]] == ["mine"]


@pytest.mark.spec("G4")
def test_a_providers_word_counts_more_than_a_nodes_name(
    cluster: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node may bear the name of another machine."""
    monkeypatch.delenv("NODE_NAME")
    cluster.node("vm-1", "x://cloud/vm-2")
    drain(cluster)
    assert state(cluster) == DRAINED
    assert state(cluster, "vm-1") == FREE


@pytest.mark.spec("G4")
def test_a_node_that_is_not_found_is_told(cluster: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is touched, and the text says what to set."""
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
def test_of_several_machines_this_one_is_drained(
    cluster: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which it is, instance metadata knows; it may be away for a moment."""
    monkeypatch.delenv("NODE_NAME")
    said: list[str | None] = [None, "vm-1"]

    def me(self: ScheduledEvents) -> str:
        name = said.pop(0)
        if name is None:
            raise Unavailable("NoAnswer", "the endpoint does not answer")
        return name

    monkeypatch.setattr(ScheduledEvents, "me", me)
    cluster.node("node-0", "x://cloud/vm-0")
    drain(cluster, event=replace(EVENT, resources=("vm-0", "vm-1")))
    assert state(cluster) == DRAINED
    assert state(cluster, "node-0") == FREE


@pytest.mark.spec("G4")
def test_the_agent_can_call_them(cluster: Double) -> None:
    """A failure's last line names what remains; the rest of the text is for the log."""
    hook = HookSettings(
        "d", EventPhase.SCHEDULED, HookKind.CALL, call="fairwarning.guest.agent.kubernetes:drain"
    )
    cluster.pod("a", app="a")
    cluster.budgets["a"] = 0
    work = create_work(
        RunHook(hook, EventPhase.SCHEDULED, EVENT, cluster.clock.after(9)), "vm-1", 0.0
    )
    assert work.run() == "raised an error"
    assert "default/a" in work.output().splitlines()[-1]
    cluster.budgets["a"] = 1
    work = create_work(
        RunHook(hook, EventPhase.SCHEDULED, EVENT, cluster.clock.after(90)), "vm-1", 0.0
    )
    assert work.run() == ""


# --- The manifest ---------------------------------------------------------------------------------


def used(call: str) -> tuple[str, str]:
    """The right that a call takes: a resource and a verb."""
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
def test_the_manifest_gives_the_rights_that_are_used_and_no_others(
    pair: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the API was asked for is what the roles allow."""
    pair.pod("a")
    with nodes() as one:
        one.signal_ready(SHARED)
        one.members(SHARED)
    drain(pair)
    monkeypatch.delenv("NODE_NAME")
    uncordon(pair)
    rules = [rule for one in manifest() if one["kind"].endswith("Role") for rule in one["rules"]]
    given = {(what, verb) for rule in rules for what in rule["resources"] for verb in rule["verbs"]}
    assert {used(call) for call in pair.calls} == given


@pytest.mark.spec("G4")
def test_the_manifests_configuration_can_be_used() -> None:
    """Hooks are there, the probe asks where the agent listens, and the journal is on the node."""
    (text,) = [one["data"]["agent.toml"] for one in manifest() if one["kind"] == "ConfigMap"]
    config = parse(text)
    calls = [hook.call.partition(":") for hook in config.hooks]
    assert {module for module, _, _ in calls} == {kubernetes.__name__}
    assert all(callable(getattr(kubernetes, name)) for _, _, name in calls)
    assert config.group == GroupSettings(kubernetes=True)
    (daemons,) = [one for one in manifest() if one["kind"] == "DaemonSet"]
    pod = daemons["spec"]["template"]["spec"]
    (agent,) = pod["containers"]
    probe = agent["livenessProbe"]["httpGet"]
    assert config.listen == f"{probe['host']}:{probe['port']}"
    mounts = {one["mountPath"]: one["name"] for one in agent["volumeMounts"]}
    kept = {one["name"] for one in pod["volumes"] if "hostPath" in one}
    assert mounts[config.state.as_posix()] in kept
    assert NODE_NAME in {one["name"] for one in agent["env"]}


def manifest() -> list[dict[str, Any]]:
    """The objects of the example, checked against their schemas."""
    path = Path(__file__).parents[2] / "examples" / "kubernetes" / "daemonset.yaml"
    loaded: list[Any] = list(codecs.load_all_yaml(path.read_text("utf-8")))
    return [one.to_dict() for one in loaded]


# --- Groups ---------------------------------------------------------------------------------------

SHARED = replace(EVENT, resources=("vm-1", "vm-2"))
READY = f"fairwarning.dev/ready-{ID.lower()}"


@pytest.fixture
def pair(cluster: Double) -> Double:
    """Two nodes; the first is ours."""
    cluster.node("node-2", "x://cloud/vm-2")
    cluster.lease("node-1")
    cluster.lease("node-2")
    return cluster


@contextmanager
def nodes(name: str = "vm-1") -> Iterator[KubernetesNodes]:
    """How an agent finds them."""
    it = create_peers(GroupSettings(kubernetes=True), name)
    assert isinstance(it, KubernetesNodes)
    try:
        yield it
    finally:
        for thread in threading.enumerate():
            if thread.name == "forget":
                thread.join()
        it._client.close()


@pytest.mark.spec("G5")
def test_machines_see_each_others_readiness_on_their_nodes(
    pair: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Telling makes no call by itself, and each says it once."""
    with nodes() as one, nodes("vm-2") as two:
        one.signal_ready(SHARED)
        assert pair.calls == []
        assert one.members(SHARED) == GroupMembers(frozenset({"vm-1", "vm-2"}), frozenset({"vm-1"}))
        monkeypatch.setenv("NODE_NAME", "node-2")
        assert two.members(SHARED).ready == {"vm-1"}
        two.signal_ready(SHARED)
        assert two.members(SHARED).ready == {"vm-1", "vm-2"}
        two.members(SHARED)
        assert state(pair, "node-2")[2] == {READY: ID}
        assert len([call for call in pair.calls if call.startswith("PATCH")]) == 2
        assert one.members(replace(SHARED, id=OTHER.id)).ready == set()


@pytest.mark.spec("G5")
def test_what_is_over_is_forgotten(pair: Double) -> None:
    """Also what an earlier agent told, and others' marks stay."""
    with nodes() as one:
        one.signal_ready(SHARED)
        one.members(SHARED)
    drain(pair)
    with nodes() as one:
        one.forget(ID.lower())
    assert state(pair) == DRAINED


@pytest.mark.spec("G5")
def test_a_kubelet_that_is_silent_is_not_alive(pair: Double) -> None:
    """By our own clock, from the last change that we saw; a node says so as well."""
    with nodes() as one:
        assert one.members(SHARED).alive == {"vm-1", "vm-2"}
        pair.clock.sleep(20)
        pair.lease("node-2", "2030-01-01T00:00:10.000000Z")
        assert one.members(SHARED).alive == {"vm-1", "vm-2"}
        pair.clock.sleep(20)
        assert one.members(SHARED).alive == {"vm-1", "vm-2"}
        pair.clock.sleep(20)
        assert one.members(SHARED).alive == {"vm-1"}
        pair.lease("node-2", "2030-01-01T00:00:20.000000Z")
        assert one.members(SHARED).alive == {"vm-1", "vm-2"}
        pair.nodes["node-2"]["status"]["conditions"][0]["status"] = "Unknown"
        assert one.members(SHARED).alive == {"vm-1"}


@pytest.mark.spec("G5")
def test_a_machine_that_is_no_node_is_not_alive_until_it_is(pair: Double) -> None:
    """The cluster is searched for it, but not at every look."""
    del pair.nodes["node-2"], pair.leases["node-2"]
    with nodes() as one:
        for _ in range(5):
            assert one.members(SHARED).alive == {"vm-1"}
        assert pair.calls.count("GET /api/v1/nodes") == 1
        pair.node("node-3", "x://cloud/vm-2")
        pair.clock.sleep(30)
        assert one.members(SHARED).alive == {"vm-1", "vm-2"}
        del pair.nodes["node-3"]
        assert one.members(SHARED).alive == {"vm-1"}


@pytest.mark.spec("G5")
def test_trouble_with_the_api_is_an_error_of_the_system(pair: Double) -> None:
    """The agent looks again; what was told is not lost."""
    with nodes() as one:
        one.signal_ready(SHARED)
        pair.failing = [failure(503, "not now")]
        with pytest.raises(OSError, match="not now"):
            one.members(SHARED)
        pair.failing = [failure(403, "nodes is forbidden")]
        with pytest.raises(OSError, match="forbidden"):
            one.members(SHARED)
        assert one.members(SHARED).ready == {"vm-1"}


@pytest.mark.spec("G5")
def test_a_machine_that_finds_no_node_for_itself_says_so(
    pair: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It cannot tell anybody that it is ready."""
    monkeypatch.delenv("NODE_NAME")
    del pair.nodes["node-1"]
    with nodes() as one:
        one.signal_ready(SHARED)
        with pytest.raises(OSError, match="'vm-1'"):
            one.members(SHARED)
