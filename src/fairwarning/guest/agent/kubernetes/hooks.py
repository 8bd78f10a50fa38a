"""The hooks: drain, mark and uncordon this machine's node (G4)."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from datetime import datetime

from fairwarning.core.errors import FairwarningError, NotFound, Refused
from fairwarning.guest.agent.kubernetes.api import KubernetesClient, spread_seconds
from fairwarning.guest.agent.kubernetes.nodes import (
    NODE_NAME,
    change_marks,
    mark_patch,
    marked_events,
    unmark_patch,
)
from fairwarning.guest.agent.kubernetes.pods import evict_pods
from fairwarning.guest.agent.kubernetes.reports import Reason, report
from fairwarning.guest.events import Event, Phase, normalize_name

_DRAINS_A_SECOND = 5  # that begin, of machines that share a large event
_LONGEST_SPREAD_SECONDS = 10.0
_AMPLE_SECONDS = 120.0  # a drain with less time begins at once

log = logging.getLogger(__name__)


def drain(event: Event, phase: Phase, deadline: datetime, cancelled: bool) -> None:  # noqa: ARG001, FBT001  (the signature of hooks)
    """Cordon and taint this machine's node, and evict its pods as their budgets allow.

    Return once all pods are gone that have to go. Raise by the deadline, with the names of those
    that remain.
    """
    with _preparing(event, phase, deadline) as cluster:
        _wait_for_turn(cluster, event)
        node = change_marks(
            cluster, lambda: _machine(event), lambda node: mark_patch(node, event, cordon=True)
        )
        log.info("node %s is cordoned for event %s", node.name, event.id)
        report(node, Reason.DRAINING, f"Evicting pods before {event.type} {event.id}")
        try:
            evict_pods(cluster, node.name, event)
        except FairwarningError as error:
            if event.id.upper() not in _over:
                report(node, Reason.DRAIN_FAILED, f"{event.type} {event.id}: {error.message}")
            raise
        log.info("node %s is drained for event %s", node.name, event.id)
        report(node, Reason.DRAINED, f"Ready for {event.type} {event.id}")


def mark(event: Event, phase: Phase, deadline: datetime, cancelled: bool) -> None:  # noqa: ARG001, FBT001  (as above)
    """Taint this machine's node against new pods; running pods stay. For freezes."""
    with _preparing(event, phase, deadline) as cluster:
        node = change_marks(
            cluster, lambda: _machine(event), lambda node: mark_patch(node, event, cordon=False)
        )
        log.info("node %s is marked for event %s", node.name, event.id)


def uncordon(event: Event, phase: Phase, deadline: datetime, cancelled: bool) -> None:  # noqa: ARG001, FBT001  (as above)
    """Undo `drain` and `mark` for the event; a node that was cordoned before stays cordoned.

    Marks of other events stay as well.
    """
    if phase is not Phase.OVER:
        raise Refused("BadConfig", f"uncordon is for the phase over, not {phase}")
    key = event.id.upper()
    with KubernetesClient(deadline) as cluster:  # a drain that went on has ended: see `hooks`
        node = change_marks(
            cluster, lambda: _machine(event), lambda node: unmark_patch(node, event)
        )
        log.info("node %s is no longer marked for event %s", node.name, event.id)
        if key in marked_events(node):
            report(node, Reason.UNCORDONED, f"{event.type} {event.id} is over")


_lock = threading.Lock()
_running: Counter[str] = Counter()  # running drain and mark hooks, by event
_over: set[str] = set()  # events whose drain and mark hooks must stop


def prepared_events() -> set[str]:
    """Return the events for which a drain or mark runs."""
    with _lock:
        return set(_running)


def end_preparations(live: Collection[str]) -> None:
    """End the drains and marks that run for events that are no longer listed."""
    with _lock:
        _over.update(key for key in _running if key not in live)


@contextmanager
def _preparing(event: Event, phase: Phase, deadline: datetime) -> Iterator[KubernetesClient]:
    key = event.id.upper()
    with _lock:
        _running[key] += 1
    try:
        if phase is Phase.OVER:
            raise Refused("BadConfig", "drain and mark are for the phase scheduled, not over")
        with KubernetesClient(deadline, lambda: key in _over) as cluster:
            yield cluster
    finally:
        with _lock:
            _running[key] -= 1
            if not _running[key]:
                del _running[key]
                _over.discard(key)


def set_machine(name: str) -> None:
    """Tell the hooks the name of this machine, which the agent knows."""
    global _own_name  # noqa: PLW0603  (hooks are plain functions, and a process has one machine)
    _own_name = name


_own_name = ""


def _wait_for_turn(cluster: KubernetesClient, event: Event) -> None:
    """Wait a few seconds by rank, if many machines drain at once and there is time."""
    names = [normalize_name(name) for name in event.resources]
    own = normalize_name(_own_name)
    if own in names and cluster.seconds_left() >= _AMPLE_SECONDS:
        cluster.wait(spread_seconds(names.index(own), _DRAINS_A_SECOND, _LONGEST_SPREAD_SECONDS))


def _machine(event: Event) -> str:
    """Return this machine's name, which a drill gives its event; unused if NODE_NAME is set."""
    if not _own_name and len(event.resources) != 1:
        text = f"event {event.id} names several machines: set {NODE_NAME} to the name of the node"
        raise NotFound("NoNode", text)
    return _own_name or event.resources[0]
