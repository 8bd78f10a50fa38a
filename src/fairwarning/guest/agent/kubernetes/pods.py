"""Evict the pods of a node within their disruption budgets, each once."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from fairwarning.core.errors import Unavailable
from fairwarning.guest.agent import agent_metrics
from fairwarning.guest.agent.kubernetes.api import (
    ApiFailure,
    ApiObject,
    Client,
    KubernetesClient,
    LastingFailure,
    error_text,
    failure_text,
    is_missing,
    status_of,
)
from fairwarning.guest.agent.kubernetes.nodes import TAINT
from fairwarning.guest.events import Event

KEEP_PODS = "FAIRWARNING_KEEP_PODS"
"""The environment variable with pods that stay: NAMESPACE/NAME-PREFIX, separated by commas."""
SKIP = "fairwarning.dev/drain"  # a label or annotation; a pod with the value `skip` stays

_PAGE_PODS = 250
_CONCURRENT_EVICTIONS = 16
_REPORT_SECONDS = 2  # for the kubelet to report that a pod has ended
_DEFAULT_GRACE_SECONDS = 30  # of a pod without terminationGracePeriodSeconds
_SHOWN_PODS = 20  # in an error or a line of the log

log = logging.getLogger(__name__)


class _NotSentError(Exception):
    """An eviction is left out because the API was silent at another one."""


@dataclass(frozen=True)
class _Pod:
    """A pod of the node."""

    namespace: str
    name: str
    uid: str
    owner: str  # its controller, or the pod's own name if it has none
    grace_seconds: int
    terminating: bool
    stays: str  # why it is not evicted; empty: it is

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def evict_pods(cluster: KubernetesClient, node: str, event: Event) -> None:
    """Evict the pods of a node until none is left that has to go."""
    eviction = _Evictions()
    try:
        while pods := eviction.sort(cluster.call(lambda client: _pods(client, node, event))):
            evicted = eviction.evict(cluster, pods)
            agent_metrics.PODS_LEFT.set(len(pods))
            agent_metrics.PODS_BLOCKED.set(len(eviction.blocked))
            cluster.pause(progress=evicted)
    except Unavailable as error:
        if not eviction.reasons:
            raise
        text = f"node {node} still has {_shown(eviction.reasons)}; {error.message}"
        raise Unavailable("PodsRemain", text) from error
    finally:
        agent_metrics.PODS_LEFT.set(0)
        agent_metrics.PODS_BLOCKED.set(0)


class _Evictions:
    """What one drain has evicted, and why pods are still there."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}  # why each pod that has to go is still there
        self.blocked: set[str] = set()  # pods that a budget blocks
        self._seen: set[str] = set()  # uids
        self._first: Counter[str] = Counter()  # pods of an owner when it was first seen
        self._returned: Counter[str] = Counter()  # pods that an owner has brought back
        self._kept: set[str] = set()  # uids of pods that came back too often
        self._failure = LastingFailure()
        self._logged: set[str] = set()

    def sort(self, pods: list[_Pod]) -> list[_Pod]:
        """Return the pods that have to go; log each other one once."""
        known = set(self._first)
        for pod in pods:
            if pod.uid in self._seen:
                continue
            self._seen.add(pod.uid)
            if pod.owner not in known:
                self._first[pod.owner] += 1
                continue
            self._returned[pod.owner] += 1
            if self._returned[pod.owner] > self._first[pod.owner]:
                self._kept.add(pod.uid)
        leaving = [pod for pod in pods if not self._stays(pod)]
        self.reasons = {
            str(pod): "terminating" if pod.terminating else "not evicted yet" for pod in leaving
        }
        return leaving

    def _stays(self, pod: _Pod) -> bool:
        """Whether a pod is left alone: by its own wish, or as its owner always brings it back."""
        if pod.stays:
            self._log_once(f"pod {pod} stays: {pod.stays}")
        elif pod.uid in self._kept:
            self._log_once(
                f"pods of {pod.owner} stay: they were evicted once and came back to the node"
            )
        return bool(pod.stays) or pod.uid in self._kept

    def evict(self, cluster: KubernetesClient, pods: Iterable[_Pod]) -> bool:
        """Evict pods concurrently; return whether one was."""
        waiting = [pod for pod in pods if not pod.terminating]
        if not waiting:
            return False
        client, left = cluster.client(), cluster.seconds_left()
        self.blocked.clear()
        size = min(_CONCURRENT_EVICTIONS, len(waiting))
        silent = threading.Event()  # a call had no response
        with ThreadPoolExecutor(size, "evict") as executor:
            errors = list(executor.map(lambda pod: _try_evict(client, pod, left, silent), waiting))
        for pod, error in zip(waiting, errors):
            self._record(pod, error)
        failures = [error for error in errors if error is not None and not _is_answer(error)]
        for error in failures:
            self._failure.observe(error)
            cluster.renew_credentials(error)
        if not failures:
            self._failure.ended()
        return None in errors

    def _record(self, pod: _Pod, error: Exception | None) -> None:
        if error is None:
            self.reasons[str(pod)] = "terminating"
            log.info("pod %s is evicted", pod)
        elif isinstance(error, _NotSentError):
            return
        elif is_missing(error) or status_of(error) == HTTPStatus.CONFLICT:
            self.reasons[str(pod)] = "replaced"  # it is gone, or another one has its name
        elif status_of(error) == HTTPStatus.TOO_MANY_REQUESTS or _budget(error):
            self.blocked.add(str(pod))
            self.reasons[str(pod)] = error_text(error)
            if budget := _budget(error):
                self.reasons[str(pod)] = f"disruption budget {pod.namespace}/{budget[0]}"
                self._log_once(
                    f"disruption budget {pod.namespace}/{budget[0]} blocks the eviction of pods,"
                    f" first of {pod}: {budget[1]}",
                    f"{pod.namespace}/{budget[0]}",
                )
            else:
                self._log_once(f"pod {pod} is not evicted yet: {error_text(error)}")
        else:
            self.reasons[str(pod)] = failure_text(error)

    def _log_once(self, text: str, key: str = "") -> None:
        if (key or text) not in self._logged:
            self._logged.add(key or text)
            log.info("%s", text)


def _is_answer(error: Exception) -> bool:
    """Whether the API has decided about the eviction, rather than failed."""
    decided = {HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS}
    is_decided = status_of(error) in decided or _budget(error) is not None
    return isinstance(error, _NotSentError) or is_missing(error) or is_decided


def _try_evict(client: Client, pod: _Pod, left: float, silent: threading.Event) -> Exception | None:
    """Evict a pod; return the failure. Once the API is silent, do not wait for it again."""
    if silent.is_set():
        return _NotSentError()
    try:
        _evict(client, pod, left)
    except Exception as error:  # noqa: BLE001  (from the HTTP library that lightkube uses)
        if not status_of(error):
            silent.set()
        return error
    return None


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


def _budget(error: ApiFailure) -> tuple[str, str] | None:
    """Return the name of the budget that blocks an eviction, and what it says.

    The status is 429, or 403 if the budget's own status is out of order.
    """
    details = getattr(getattr(error, "status", None), "details", None)
    for cause in getattr(details, "causes", None) or ():
        if match := re.search(r"disruption budget (\S+)", cause.message or ""):
            return match[1], " ".join(cause.message.split())
    return None


def _shown(reasons: Mapping[str, str]) -> str:
    items = [f"{pod} ({reason})" for pod, reason in reasons.items()]
    more = [f"and {len(items) - _SHOWN_PODS} more"] if len(items) > _SHOWN_PODS else []
    return f"{len(items)} pods: {', '.join([*items[:_SHOWN_PODS], *more])}"


# --- Which pods -----------------------------------------------------------------------------------


def _pods(client: Client, node: str, event: Event) -> list[_Pod]:
    """List the pods of a node, without those that never leave it or have ended."""
    from lightkube.resources.core_v1 import Pod  # noqa: PLC0415  (an optional dependency)

    pods = client.list(Pod, namespace="*", fields={"spec.nodeName": node}, chunk_size=_PAGE_PODS)
    return [_pod(pod, event) for pod in pods if not _is_exempt(pod)]


def _pod(pod: ApiObject, event: Event) -> _Pod:
    metadata = pod.metadata
    grace = pod.spec.terminationGracePeriodSeconds
    controller = _controller(pod)
    owner = metadata.name if controller is None else f"{controller.kind} {controller.name}"
    return _Pod(
        metadata.namespace,
        metadata.name,
        metadata.uid,
        f"{metadata.namespace}/{owner}",
        _DEFAULT_GRACE_SECONDS if grace is None else grace,
        metadata.deletionTimestamp is not None,
        _why_it_stays(pod, event),
    )


def _controller(pod: ApiObject) -> ApiObject | None:
    owners = pod.metadata.ownerReferences or ()
    return next((owner for owner in owners if owner.controller), None)


def _is_exempt(pod: ApiObject) -> bool:
    """Whether a pod has ended, belongs to a DaemonSet, or is a mirror pod."""
    controller = _controller(pod)
    return (
        (pod.status is not None and pod.status.phase in {"Succeeded", "Failed"})
        or "kubernetes.io/config.mirror" in (pod.metadata.annotations or {})
        or (controller is not None and controller.kind == "DaemonSet")
    )


def _why_it_stays(pod: ApiObject, event: Event) -> str:
    """Return why a pod is not evicted; empty if it is."""
    metadata = pod.metadata
    for marks in (metadata.labels or {}, metadata.annotations or {}):
        if marks.get(SKIP) == "skip":
            return f"it has {SKIP}: skip"
    name = f"{metadata.namespace}/{metadata.name}"
    for prefix in filter(None, map(str.strip, os.environ.get(KEEP_PODS, "").split(","))):
        if name.startswith(prefix):
            return f"{KEEP_PODS} names {prefix}"
    if any(_tolerates(toleration, event) for toleration in pod.spec.tolerations or ()):
        return f"it tolerates the taint {TAINT}"
    return ""


def _tolerates(toleration: ApiObject, event: Event) -> bool:
    if (toleration.effect or "NoSchedule") != "NoSchedule" or (toleration.key or TAINT) != TAINT:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.key == TAINT and (toleration.value or "") == event.type
