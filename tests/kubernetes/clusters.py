"""A cluster for tests of agents: a real API server, or the double in real time."""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from fairwarning.guest.agent.kubernetes.nodes import CORDONED, EVENT_ID, TAINT
from tests.guest.kubernetes_double import Clock, Double, Raw, serving

if TYPE_CHECKING:
    from tests.kubernetes.real_cluster import RealCluster

AgentCluster: TypeAlias = "DoubleCluster | RealCluster"

TICK_SECONDS = 0.02
IMAGES = [
    {"names": [f"registry.example/team-{n}/image-{n}@sha256:{n:064}"], "sizeBytes": 100_000_000 + n}
    for n in range(50)  # as many as a kubelet reports
]
RIGHTS = {
    *("get nodes", "list nodes", "patch nodes", "patch nodes/status"),
    *("list pods", "create pods/eviction", "get leases", "create events"),
}


def pod_names(pods: Iterable[Raw], node: str, *, staying: bool) -> list[str]:
    """Return the names of the pods of a node; with `staying`, without those that terminate."""
    return [
        pod["metadata"]["name"]
        for pod in pods
        if pod["spec"].get("nodeName") == node
        and not (staying and "deletionTimestamp" in pod["metadata"])
    ]


def is_free(cluster: AgentCluster, name: str) -> bool:
    """Whether a node has no mark of ours and is not cordoned."""
    node = cluster.raw_node(name)
    taints = [taint["key"] for taint in node["spec"].get("taints", [])]
    notes = {**node["metadata"].get("annotations", {}), **node["metadata"].get("labels", {})}
    ours = [key for key in notes if key.startswith("fairwarning.dev/")]
    return not node["spec"].get("unschedulable") and TAINT not in taints and not ours


def is_drained(cluster: AgentCluster, name: str) -> bool:
    """Whether a node is cordoned, tainted and annotated by us."""
    node = cluster.raw_node(name)
    taints = [taint["key"] for taint in node["spec"].get("taints", [])]
    notes = node["metadata"].get("annotations", {})
    return (
        bool(node["spec"].get("unschedulable"))
        and TAINT in taints
        and notes.keys() >= {EVENT_ID, CORDONED}
    )


def merge(raw: Raw, change: Raw) -> None:
    """Change an object as a JSON merge patch does."""
    for key, value in change.items():
        if isinstance(value, dict):
            merge(raw.setdefault(key, {}), value)
        elif value is None:
            raw.pop(key, None)
        else:
            raw[key] = value


class RealTime(Clock):
    """The time of the machine, for the double."""

    def time(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()


class DoubleCluster:
    """The double in real time; pods end while a thread looks at them, as with a kubelet."""

    def __init__(self, double: Double, config: Path) -> None:
        self._double = double
        self._config = config
        self._renewals = 0
        self._times: list[float] = []
        double.before = lambda _: self._times.append(time.monotonic())

    def node(self, name: str, machine: str) -> None:
        self._double.node(name, f"x://cloud/{machine}")
        self._double.lease(name)

    def fill(self, count: int) -> None:
        for number in range(count):
            node = self._double.node(f"other-{number}", f"x://cloud/other-{number}")
            node["status"]["images"] = IMAGES

    def pod(self, name: str, node: str, *, owner: str = "", grace: int = 1) -> None:
        raw = self._double.pod(name, node, owner=owner, app=name, grace=grace)
        raw["metadata"]["uid"] += f"-{time.monotonic()}"

    def pods(self, node: str, *, staying: bool = False) -> list[str]:
        return pod_names(list(self._double.pods.values()), node, staying=staying)

    def set_budget(self, app: str, allowed: int) -> None:
        self._double.budgets[app] = allowed

    def raw_node(self, name: str) -> Raw:
        return self._double.nodes[name]

    def change_node(self, name: str, change: Raw) -> None:
        merge(self._double.nodes[name], change)

    def delete_node(self, name: str) -> None:
        del self._double.nodes[name]

    def renew_leases(self) -> None:
        self._renewals += 1
        for name in list(self._double.nodes):
            self._double.lease(
                name, f"2030-01-01T00:{self._renewals // 60:02}:{self._renewals % 60:02}.000000Z"
            )

    def config(self, node: str) -> Path:
        return self._config

    def stop(self) -> None:
        self._double.away = True

    def start(self) -> None:
        self._double.away = False

    def revoke(self) -> None:
        self._double.denied = set(RIGHTS)

    def grant(self) -> None:
        self._double.denied = set()

    def calls(self) -> Counter[int]:
        return Counter(int(moment) for moment in self._times)


@contextmanager
def double_cluster(folder: Path) -> Iterator[DoubleCluster]:
    """Serve the double in real time."""
    clock = RealTime()
    double = Double(clock)
    ended = threading.Event()

    def end_pods() -> None:
        while not ended.wait(TICK_SECONDS):
            for look in clock.each:
                look(clock.monotonic())

    kubelet = threading.Thread(target=end_pods)
    kubelet.start()
    try:
        with serving(double, folder) as config:
            yield DoubleCluster(double, config)
    finally:
        ended.set()
        kubelet.join()
