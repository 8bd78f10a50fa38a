"""Kubernetes: hooks that drain and uncordon this machine's node (G4), and readiness on it (G5).

All state is on the node, and every change is one call, so an agent that is killed between two calls
runs the hook again and reaches the same state. lightkube, which the extra `kubernetes` installs, is
imported inside functions only.
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
    error_text,
    mark_patch,
    match_node,
    node_named,
    status_of,
    unmark_patch,
)
from fairwarning.guest.agent.plan import GroupMembers
from fairwarning.guest.client import ScheduledEvents
from fairwarning.guest.events import Event, normalize_name
from fairwarning.guest.watch import Phase

READY = "fairwarning.dev/ready-"  # followed by the event's id

_REPORT_SECONDS = 2  # for the kubelet to report that a pod has ended
_DEFAULT_GRACE_SECONDS = 30  # of a pod without terminationGracePeriodSeconds
_LEASE_SECONDS = 25.0  # a kubelet renews its lease every 10 s
_LIST_SECONDS = 30.0  # between searches for the nodes of unknown machines
_FORGET_SECONDS = 60


log = logging.getLogger(__name__)


# --- Hooks ----------------------------------------------------------------------------------------


def drain(event: Event, phase: Phase, deadline: datetime, cancelled: bool) -> None:  # noqa: ARG001, FBT001  (the signature of hooks)
    """Cordon and taint this machine's node, and evict its pods as their budgets allow.

    Return once all pods are gone. Raise by the deadline, with the names of those that remain.
    """
    with _preparing(event, phase, deadline) as cluster:
        name = cluster.change(
            lambda: _machine(event), lambda node: mark_patch(node, event, cordon=True)
        )
        log.info("node %s is cordoned for event %s", name, event.id)
        _evict_pods(cluster, name)
        log.info("node %s is drained for event %s", name, event.id)


def mark(event: Event, phase: Phase, deadline: datetime, cancelled: bool) -> None:  # noqa: ARG001, FBT001  (as above)
    """Taint this machine's node against new pods; running pods stay. For freezes."""
    with _preparing(event, phase, deadline) as cluster:
        name = cluster.change(
            lambda: _machine(event), lambda node: mark_patch(node, event, cordon=False)
        )
        log.info("node %s is marked for event %s", name, event.id)


def uncordon(event: Event, phase: Phase, deadline: datetime, cancelled: bool) -> None:  # noqa: ARG001, FBT001  (as above)
    """Undo `drain` and `mark` for the event; a node that was cordoned before stays cordoned.

    Marks of other events stay as well.
    """
    if phase is not Phase.OVER:
        raise Refused("BadConfig", f"uncordon is for the phase over, not {phase}")
    key = event.id.upper()
    with KubernetesClient(deadline) as cluster:
        with _condition:
            _over.add(key)  # ends a drain that still runs, which the agent cannot stop
            if not _condition.wait_for(lambda: not _running[key], cluster.seconds_left()):
                raise Unavailable("StillDraining", f"the drain for event {event.id} has not ended")
            _over.discard(key)
        name = cluster.change(lambda: _machine(event), lambda node: unmark_patch(node, event))
        log.info("node %s is no longer marked for event %s", name, event.id)


_condition = threading.Condition()
_running: Counter[str] = Counter()  # running drain and mark hooks, by event
_over: set[str] = set()  # events whose drain and mark hooks must stop


@contextmanager
def _preparing(event: Event, phase: Phase, deadline: datetime) -> Iterator["KubernetesClient"]:
    key = event.id.upper()
    with _condition:
        if not _running[key]:
            _over.discard(key)  # the event is listed again
        _running[key] += 1
    try:
        if phase is Phase.OVER:
            raise Refused("BadConfig", "drain and mark are for the phase scheduled, not over")
        with KubernetesClient(deadline, lambda: key in _over) as cluster:
            yield cluster
    finally:
        with _condition:
            _running[key] -= 1
            if not _running[key]:
                del _running[key]
            _condition.notify_all()


def _machine(event: Event) -> str:
    """Return this machine's name in the event; unused if NODE_NAME is set."""
    if os.environ.get(NODE_NAME) or len(event.resources) == 1:
        return event.resources[0]
    with ScheduledEvents(patience=CALL_SECONDS) as client:
        return client.me()


# --- Pods -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Pod:
    """A pod to evict."""

    namespace: str
    name: str
    uid: str
    grace_seconds: int
    terminating: bool

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def _evict_pods(cluster: KubernetesClient, node: str) -> None:
    """Evict the pods of a node until none is left."""
    reasons: dict[str, str] = {}  # why each pod is still there
    try:
        while pods := cluster.call(lambda client: _pods(client, node)):
            reasons = {
                str(pod): "terminating" if pod.terminating else "not evicted yet" for pod in pods
            }
            _evict_all(cluster, [pod for pod in pods if not pod.terminating], reasons)
            cluster.pause()
    except Unavailable as error:
        if not reasons:
            raise
        shown = ", ".join(f"{pod} ({reason})" for pod, reason in reasons.items())
        text = f"node {node} still has {len(reasons)} pods: {shown}; {error.message}"
        raise Unavailable("PodsRemain", text) from error


def _pods(client: Client, node: str) -> list[_Pod]:
    from lightkube.resources.core_v1 import Pod  # noqa: PLC0415  (an optional dependency)

    pods = client.list(Pod, namespace="*", fields={"spec.nodeName": node})
    raws = [pod.to_dict() for pod in pods]
    return [_pod(raw) for raw in raws if not _is_exempt(raw)]


def _pod(raw: Mapping[str, Any]) -> _Pod:
    metadata = raw["metadata"]
    grace = raw.get("spec", {}).get("terminationGracePeriodSeconds", _DEFAULT_GRACE_SECONDS)
    terminating = "deletionTimestamp" in metadata
    return _Pod(metadata["namespace"], metadata["name"], metadata["uid"], grace, terminating)


def _is_exempt(raw: Mapping[str, Any]) -> bool:
    """Whether a pod stays: it has ended, belongs to a DaemonSet, or is a mirror pod."""
    metadata = raw["metadata"]
    return (
        raw.get("status", {}).get("phase") in {"Succeeded", "Failed"}
        or "kubernetes.io/config.mirror" in metadata.get("annotations", {})
        or any(
            owner["kind"] == "DaemonSet" and owner.get("controller")
            for owner in metadata.get("ownerReferences", ())
        )
    )


def _evict_all(cluster: KubernetesClient, pods: list[_Pod], reasons: dict[str, str]) -> None:
    """Evict each pod; record in `reasons` why a pod is still there."""
    for pod in pods:
        try:
            _evict(cluster.client(), pod, cluster.seconds_left())
            reasons[str(pod)] = "terminating"
            log.info("pod %s is evicted", pod)
        except FairwarningError:
            raise
        except Exception as error:  # noqa: BLE001  (from the HTTP library that lightkube uses)
            if status_of(error) in {HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT}:
                continue  # it is gone, or was replaced by one of the same name
            reasons[str(pod)] = error_text(error)
            log.warning("pod %s is not evicted yet: %s", pod, reasons[str(pod)])
            if not status_of(error):
                break  # no response: the other evictions would fail as well


def _evict(client: Client, pod: _Pod, left: float) -> None:
    """Evict a pod with a grace period that ends before the deadline."""
    from lightkube.resources.core_v1 import Pod  # noqa: PLC0415  (an optional dependency)

    max_grace = max(1, int(left) - _REPORT_SECONDS)
    options: dict[str, Any] = {"preconditions": {"uid": pod.uid}}  # not a new pod of that name
    if pod.grace_seconds > max_grace:
        options["gracePeriodSeconds"] = max_grace
    metadata = {"name": pod.name, "namespace": pod.namespace}
    eviction = Pod.Eviction.from_dict({"metadata": metadata, "deleteOptions": options})
    client.create(eviction, pod.name, namespace=pod.namespace)


# --- Groups ---------------------------------------------------------------------------------------


class KubernetesNodes:
    """Machines that are nodes of one cluster; an annotation on a node shows readiness.

    A machine is alive while its node is ready and its kubelet renews its lease, timed by the clock
    of this machine.
    """

    def __init__(self, name: str) -> None:
        self._name = normalize_name(name)
        self._client = connect(CALL_SECONDS)
        self._lock = threading.Lock()
        self._ready: set[str] = set()
        self._nodes: dict[str, str] = {}  # node names by normalized machine name
        self._listed_at = float("-inf")
        self._renewals: dict[str, tuple[str, float]] = {}  # renewTime, and when it was first read

    def heartbeat(self) -> None:
        """Do nothing: the kubelet renews the lease."""

    def signal_ready(self, event: Event) -> None:
        """Record readiness; the next `members` writes it, so that this does not block."""
        with self._lock:
            self._ready.add(event.id.upper())

    def members(self, event: Event) -> GroupMembers:
        """Read the nodes of all machines; raise `OSError` if the API fails."""
        try:
            return self._read_members(event)
        except Exception as error:
            raise OSError(f"the Kubernetes API failed: {error_text(error)}") from error

    def forget(self, event: str) -> None:
        """Remove this machine's annotation in the background."""
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
            log.warning("cannot remove the annotation of event %s: %s", event, error.message)

    def _read_members(self, event: Event) -> GroupMembers:
        nodes = self._read_nodes({normalize_name(resource) for resource in event.resources})
        key, id_ = _ready_key(event.id), event.id.upper()
        ready = {name for name, node in nodes.items() if node.annotations.get(key) == id_}
        with self._lock:
            is_unsignalled = id_ in self._ready and self._name not in ready
        if is_unsignalled:
            if self._name not in nodes:
                raise NotFound(
                    "NoNode", f"the cluster has no node for this machine, {self._name!r}"
                )
            change_node(
                self._client, nodes[self._name].name, {"metadata": {"annotations": {key: id_}}}
            )
            ready.add(self._name)
        alive = {name for name, node in nodes.items() if self._is_alive(node)}
        return GroupMembers(frozenset(alive | {self._name}), frozenset(ready))

    def _read_nodes(self, names: set[str]) -> dict[str, NodeView]:
        """Return the nodes of these machines; list the whole cluster only now and then."""
        if name := os.environ.get(NODE_NAME):
            self._nodes[self._name] = name
        missing, now = names - self._nodes.keys(), time.monotonic()
        if missing and now - self._listed_at >= _LIST_SECONDS:
            nodes = all_nodes(self._client)
            self._listed_at = now
            for name in missing:
                with suppress(NotFound):
                    self._nodes[name] = match_node(nodes, name).name
        views = {}
        for name in names & self._nodes.keys():
            try:
                views[name] = node_named(self._client, self._nodes[name])
            except NotFound:
                del self._nodes[name]
        return views

    def _is_alive(self, node: NodeView) -> bool:
        from lightkube.resources.coordination_v1 import Lease  # noqa: PLC0415  (as above)

        renewed = ""
        try:
            lease = self._client.get(Lease, node.name, namespace="kube-node-lease").to_dict()
            renewed = lease.get("spec", {}).get("renewTime", "")
        except Exception as error:
            if status_of(error) != HTTPStatus.NOT_FOUND:
                raise
        now = time.monotonic()
        previous, since = self._renewals.get(node.name, ("", now))
        if renewed != previous:
            since = now
        self._renewals[node.name] = (renewed, since)
        return node.ready and (not renewed or now - since < _LEASE_SECONDS)


def _ready_key(event: str) -> str:
    """Return the annotation key of an event. Its value is the full id, which tells events apart."""
    max_length = LABEL_CHARACTERS - len(READY.partition("/")[2])
    return READY + re.sub(r"[^a-z0-9]+", "-", event.lower())[:max_length].strip("-")
