"""Kubernetes: hooks that drain this machine's node and give it back (G4), and readiness on it (G5).

What was done stands on the node and nowhere else, and every change is one call. So whoever was
killed between two calls runs again and ends in the same state. lightkube, of the extra
`kubernetes`, is imported inside functions only.
"""

import logging
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from fairwarning.core.errors import FairwarningError, NotFound, Refused, Unavailable
from fairwarning.guest.agent.cluster import (
    CALL_SECONDS,
    LABEL_CHARACTERS,
    NODE_NAME,
    Client,
    KubernetesClient,
    NodeView,
    Patch,
    all_nodes,
    change_node,
    connect,
    fitting,
    marked,
    node_named,
    status_of,
    text_of,
    unmarked,
)
from fairwarning.guest.agent.plan import GroupMembers
from fairwarning.guest.client import ScheduledEvents
from fairwarning.guest.events import Event, plain
from fairwarning.guest.watch import Phase

READY = "fairwarning.dev/ready-"  # and the event's id

_REPORT_SECONDS = 2  # a kubelet needs them to tell that a pod has ended
_USUAL_GRACE_SECONDS = 30  # of a pod that does not say
_SILENT_SECONDS = 25.0  # a kubelet shows every 10 s that it lives
_LIST_SECONDS = 30.0  # between searches for machines that are no node we know
_FORGET_SECONDS = 60


log = logging.getLogger(__name__)


# --- Hooks ----------------------------------------------------------------------------------------


def drain(event: Event, phase: Phase, deadline: datetime, cancelled: bool) -> None:  # noqa: ARG001, FBT001  (what hooks take)
    """Cordon and taint this machine's node, and evict its pods as their budgets allow.

    Returns once all are gone. Raises by the deadline, with those that remain.
    """
    with _preparing(event, phase, deadline) as cluster:
        node = cluster.change(lambda: _machine(event), lambda it: marked(it, event, cordon=True))
        log.info("node %s is cordoned for event %s", node, event.id)
        _empty(cluster, node)
        log.info("node %s is drained for event %s", node, event.id)


def mark(event: Event, phase: Phase, deadline: datetime, cancelled: bool) -> None:  # noqa: ARG001, FBT001  (as above)
    """Taint this machine's node, so that nothing new comes; what runs there stays. For freezes."""
    with _preparing(event, phase, deadline) as cluster:
        node = cluster.change(lambda: _machine(event), lambda it: marked(it, event, cordon=False))
        log.info("node %s is marked for event %s", node, event.id)


def uncordon(event: Event, phase: Phase, deadline: datetime, cancelled: bool) -> None:  # noqa: ARG001, FBT001  (as above)
    """Undo what `drain` and `mark` did for the event; a node that others cordoned stays so.

    While another event has the node, its marks stay as well.
    """
    if phase is not Phase.OVER:
        raise Refused("BadConfig", f"uncordon is for the phase over, not {phase}")
    key = event.id.upper()
    with KubernetesClient(deadline) as cluster:
        with _changed:
            _over.add(key)  # the agent has no means to end a drain that still runs; this does
            if not _changed.wait_for(lambda: not _running[key], cluster.left()):
                raise Unavailable("StillDraining", f"the drain for event {event.id} has not ended")
            _over.discard(key)
        node = cluster.change(lambda: _machine(event), lambda it: unmarked(it, event))
        log.info("node %s is free of event %s", node, event.id)


_changed = threading.Condition()
_running: Counter[str] = Counter()  # hooks that prepare, by event
_over: set[str] = set()  # events whose hooks have lost their point


@contextmanager
def _preparing(event: Event, phase: Phase, deadline: datetime) -> Iterator["KubernetesClient"]:
    key = event.id.upper()
    with _changed:
        if not _running[key]:
            _over.discard(key)  # it was gone and is back: a new life
        _running[key] += 1
    try:
        if phase is Phase.OVER:
            raise Refused("BadConfig", "drain and mark are for the phase scheduled, not over")
        with KubernetesClient(deadline, lambda: key in _over) as cluster:
            yield cluster
    finally:
        with _changed:
            _running[key] -= 1
            if not _running[key]:
                del _running[key]
            _changed.notify_all()


def _machine(event: Event) -> str:
    """This machine as the event names it; of no matter where the node's name is given."""
    if os.environ.get(NODE_NAME) or len(event.resources) == 1:
        return event.resources[0]
    with ScheduledEvents(patience=CALL_SECONDS) as client:
        return client.me()


# --- Pods -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Pod:
    """A pod that has to go."""

    namespace: str
    name: str
    uid: str
    grace_seconds: int
    leaving: bool

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def _empty(cluster: KubernetesClient, node: str) -> None:
    """Evict what runs on a node until nothing does."""
    why: dict[str, str] = {}  # pods are still there
    try:
        while pods := cluster.call(lambda client: _pods(client, node)):
            why = {str(pod): "is ending" if pod.leaving else "not asked yet" for pod in pods}
            _evict_all(cluster, [pod for pod in pods if not pod.leaving], why)
            cluster.pause()
    except Unavailable as error:
        if not why:
            raise
        shown = ", ".join(f"{pod} ({reason})" for pod, reason in why.items())
        text = f"node {node} still has {len(why)} pods: {shown}; {error.message}"
        raise Unavailable("PodsRemain", text) from error


def _pods(client: Client, node: str) -> list[_Pod]:
    from lightkube.resources.core_v1 import Pod  # noqa: PLC0415  (an extra has it)

    found = client.list(Pod, namespace="*", fields={"spec.nodeName": node})
    raws = [raw.to_dict() for raw in found]
    return [_pod(raw) for raw in raws if not _stays(raw)]


def _pod(raw: Mapping[str, Any]) -> _Pod:
    about = raw["metadata"]
    grace = raw.get("spec", {}).get("terminationGracePeriodSeconds", _USUAL_GRACE_SECONDS)
    leaving = "deletionTimestamp" in about
    return _Pod(about["namespace"], about["name"], about["uid"], grace, leaving)


def _stays(raw: Mapping[str, Any]) -> bool:
    """It has ended, would come back at once (a DaemonSet's), or is the kubelet's own (a mirror)."""
    about = raw["metadata"]
    return (
        raw.get("status", {}).get("phase") in {"Succeeded", "Failed"}
        or "kubernetes.io/config.mirror" in about.get("annotations", {})
        or any(
            owner["kind"] == "DaemonSet" and owner.get("controller")
            for owner in about.get("ownerReferences", ())
        )
    )


def _evict_all(cluster: KubernetesClient, pods: list[_Pod], why: dict[str, str]) -> None:
    """Ask each to go; `why` tells afterwards why those do not that may not yet."""
    for pod in pods:
        try:
            _evict(cluster.client(), pod, cluster.left())
            why[str(pod)] = "is ending"
            log.info("pod %s is evicted", pod)
        except FairwarningError:
            raise
        except Exception as error:  # noqa: BLE001  (of whatever HTTP library lightkube has)
            if status_of(error) in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
                continue  # it is gone; there may be another of its name
            why[str(pod)] = text_of(error)
            log.warning("pod %s is not evicted yet: %s", pod, why[str(pod)])
            if not status_of(error):
                break  # nor will the others be


def _evict(client: Client, pod: _Pod, left: float) -> None:
    """Have it go, with no more time to end than there is."""
    from lightkube.resources.core_v1 import Pod  # noqa: PLC0415  (an extra has it)

    most = max(1, int(left) - _REPORT_SECONDS)
    options: dict[str, Any] = {"preconditions": {"uid": pod.uid}}  # not another of its name
    if pod.grace_seconds > most:
        options["gracePeriodSeconds"] = most
    about = {"name": pod.name, "namespace": pod.namespace}
    eviction = Pod.Eviction.from_dict({"metadata": about, "deleteOptions": options})
    client.create(eviction, pod.name, namespace=pod.namespace)


# --- Groups ---------------------------------------------------------------------------------------


class KubernetesNodes:
    """Machines that are nodes of one cluster; an annotation says that its machine is ready.

    A machine is alive while its node is ready and its kubelet renews its lease. When that was is
    measured by our own clock.
    """

    def __init__(self, name: str) -> None:
        self._name = plain(name)
        self._client = connect(CALL_SECONDS)
        self._lock = threading.Lock()
        self._ready: set[str] = set()
        self._nodes: dict[str, str] = {}  # by the plain names of their machines
        self._listed = float("-inf")
        self._renewals: dict[str, tuple[str, float]] = {}  # what the lease said, and since when

    def live(self) -> None:
        """Its kubelet shows it."""

    def tell(self, event: Event) -> None:
        """The next look writes it down, so that nobody waits for the API here."""
        with self._lock:
            self._ready.add(event.id.upper())

    def look(self, event: Event) -> GroupMembers:
        """Look at everybody's nodes; `OSError` where the API fails."""
        try:
            return self._look(event)
        except Exception as error:
            raise OSError(f"the Kubernetes API failed: {text_of(error)}") from error

    def forget(self, event: str) -> None:
        """Take our annotation off, beside all else."""
        with self._lock:
            self._ready.discard(event.upper())
        threading.Thread(target=self._forget, args=(event,), name="forget", daemon=True).start()

    def _forget(self, event: str) -> None:
        def patch(node: NodeView) -> Patch | None:
            key = _ready_key(event)
            return {"metadata": {"annotations": {key: None}}} if key in node.annotations else None

        deadline = datetime.fromtimestamp(time.time() + _FORGET_SECONDS, UTC)
        try:
            with KubernetesClient(deadline) as cluster:
                cluster.change(lambda: self._name, patch)
        except FairwarningError as error:
            log.warning("event %s is not forgotten: %s", event, error.message)

    def _look(self, event: Event) -> GroupMembers:
        nodes = self._found({plain(one) for one in event.resources})
        key, id_ = _ready_key(event.id), event.id.upper()
        ready = {name for name, node in nodes.items() if node.annotations.get(key) == id_}
        with self._lock:
            tells = id_ in self._ready and self._name not in ready
        if tells:
            if self._name not in nodes:
                raise NotFound("NoNode", f"no node is found for this machine, {self._name!r}")
            change_node(
                self._client, nodes[self._name].name, {"metadata": {"annotations": {key: id_}}}
            )
            ready.add(self._name)
        alive = {name for name, node in nodes.items() if self._lives(node)}
        return GroupMembers(frozenset(alive | {self._name}), frozenset(ready))

    def _found(self, names: set[str]) -> dict[str, NodeView]:
        """The nodes of these machines. The whole cluster is listed now and then, at most."""
        if name := os.environ.get(NODE_NAME):
            self._nodes[self._name] = name
        missing, now = names - self._nodes.keys(), time.monotonic()
        if missing and now - self._listed >= _LIST_SECONDS:
            nodes = all_nodes(self._client)
            self._listed = now
            for name in missing:
                with suppress(NotFound):
                    self._nodes[name] = fitting(nodes, name).name
        found = {}
        for name in names & self._nodes.keys():
            try:
                found[name] = node_named(self._client, self._nodes[name])
            except NotFound:
                del self._nodes[name]
        return found

    def _lives(self, node: NodeView) -> bool:
        from lightkube.resources.coordination_v1 import Lease  # noqa: PLC0415  (an extra has it)

        renewed = ""
        try:
            lease = self._client.get(Lease, node.name, namespace="kube-node-lease").to_dict()
            renewed = lease.get("spec", {}).get("renewTime", "")
        except Exception as error:
            if status_of(error) != HTTPStatus.NOT_FOUND:
                raise
        now = time.monotonic()
        before, since = self._renewals.get(node.name, ("", now))
        if renewed != before:
            since = now
        self._renewals[node.name] = (renewed, since)
        return node.ready and (not renewed or now - since < _SILENT_SECONDS)


def _ready_key(event: str) -> str:
    """The annotation for an event. Its value is the whole id, so no other is mistaken for it."""
    room = LABEL_CHARACTERS - len(READY.partition("/")[2])
    return READY + re.sub(r"[^a-z0-9]+", "-", event.lower())[:room].strip("-")
