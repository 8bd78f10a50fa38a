"""Readiness of machines that share an event, as labels on their nodes (G5, G9).

The first living machine of the event leads: each second it lists the nodes with the event's label.
The other machines label their own node, and look every few seconds whether a machine before them
is alive. So the number of calls grows with the number of machines, not with its square.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from fairwarning.core.errors import NotFound
from fairwarning.guest.agent.actions import GroupMembers
from fairwarning.guest.agent.kubernetes.access import LEASES
from fairwarning.guest.agent.kubernetes.api import (
    CALL_SECONDS,
    Client,
    connect,
    failure_text,
    is_missing,
    spread_seconds,
)
from fairwarning.guest.agent.kubernetes.nodes import (
    NODE_NAME,
    NodeView,
    change_node,
    changing_marks,
    clear_patch,
    group_key,
    match_names,
    node_named,
    nodes,
    own_node,
)
from fairwarning.guest.events import Event, normalize_name

PREPARING, IS_READY, HAS_FAILED = "preparing", "ready", "failed"  # values of the label

_LEASE_SECONDS = 25.0  # a kubelet renews its lease every 10 s
_SEARCH_SECONDS = 30.0  # between searches of all nodes for machines without a label
_FOLLOW_SECONDS = 10.0  # between looks of a machine that does not lead
_ALIVE_SECONDS = 5.0  # between looks of the leader at one machine, in a small group
_RETRY_SECONDS = 30.0  # after labels could not be removed
_GIVE_UP_SECONDS = 300.0  # after the end of an event: the reconciler removes what is left
_LEADER_LOOKS = 5  # at machines that are not ready, in one second
_BEGIN_A_SECOND = 5  # machines of a large group that begin in one second
_READY_A_SECOND = 10  # machines of a large group that signal readiness in one second
_LONGEST_BEGIN_SECONDS = 20.0  # so a hundred machines
_LONGEST_READY_SECONDS = 10.0
_NEVER = float("-inf")

T = TypeVar("T")


@dataclass
class _Group:
    """What this machine knows about the machines of one event."""

    names: tuple[str, ...]  # of all machines, normalized, in the order of the event
    rank: int  # of this machine
    begins_at: float
    nodes: dict[str, str] = field(default_factory=dict)  # node names by machine
    alive: dict[str, bool] = field(default_factory=dict)
    looked_at: dict[str, float] = field(default_factory=dict)  # at a machine
    searched_at: float = _NEVER
    written: str = ""  # the value of our own label


class KubernetesNodes:
    """Machines that are nodes of one cluster.

    A machine is alive while its node is ready and its kubelet renews its lease, timed by the clock
    of this machine.
    """

    def __init__(self, name: str) -> None:
        self._name = normalize_name(name)
        self._node = os.environ.get(NODE_NAME, "")
        self._client = connect(CALL_SECONDS)
        self._lock = threading.Lock()
        self._states: dict[str, tuple[str, float]] = {}  # our own, by event, and since when
        self._forgotten: dict[str, float] = {}  # events whose labels are to go, and since when
        self._removes_at = _NEVER
        self._groups: dict[str, _Group] = {}
        self._renewals: dict[str, tuple[object, float]] = {}  # renewTime, and when first read

    def heartbeat(self) -> None:
        """Remove this machine's labels of events that are over; the kubelet renews the lease."""
        now = time.monotonic()
        with self._lock:
            for event, since in list(self._forgotten.items()):
                if now >= since + _GIVE_UP_SECONDS:
                    self._groups.pop(event, None)
                if event not in self._groups:  # it has no label of this process
                    del self._forgotten[event]
            forgotten = set(self._forgotten)
        if forgotten and now >= self._removes_at:
            self._removes_at = now + _RETRY_SECONDS
            self._call(lambda: self._remove_labels(forgotten))
            self._removes_at = _NEVER

    def signal(self, event: Event, *, ready: bool) -> None:
        """Record the state; the next `members` writes it, so that this does not block."""
        with self._lock:
            state = IS_READY if ready else HAS_FAILED
            self._states[event.id.upper()] = (state, time.monotonic())

    def members(self, event: Event) -> GroupMembers:
        """Return the machines as this one has to know them; raise `OSError` if the API fails."""
        return self._call(lambda: self._read_members(event))

    def _call(self, step: Callable[[], T]) -> T:
        try:
            return step()
        except Exception as error:
            self._client.close()
            self._client = connect(CALL_SECONDS)  # with new credentials
            raise OSError(failure_text(error)) from error

    def forget(self, event: str) -> None:
        """Have the next heartbeat remove this machine's label: no query is under way then."""
        with self._lock:
            self._states.pop(event.upper(), None)
            self._forgotten[event.upper()] = time.monotonic()

    def _remove_labels(self, events: set[str]) -> None:
        with changing_marks:
            node = own_node(self._client, lambda: self._name)
            patch = clear_patch(node, (), set(map(group_key, events)))
            if patch is not None:
                change_node(self._client, node.name, patch)
        with self._lock:
            for event in events:
                del self._groups[event], self._forgotten[event]

    # --- One event ---

    def _read_members(self, event: Event) -> GroupMembers:
        if not event.concerns(self._name):
            return GroupMembers(frozenset(), frozenset())
        group = self._group(event)
        now = time.monotonic()
        if now < group.begins_at:
            return GroupMembers(frozenset({group.names[0], self._name}), frozenset())
        self._write_state(event, group, now)
        leader = self._find_leader(event, group, now)
        if not leader:
            return self._lead(event, group)
        own = frozenset({self._name} if group.written == IS_READY else ())
        return GroupMembers(frozenset({leader, self._name}), own)

    def _group(self, event: Event) -> _Group:
        """Return what is known about an event; begin later in a large group, by rank."""
        names = tuple(dict.fromkeys(normalize_name(name) for name in event.resources))
        group = self._groups.get(event.id.upper())
        if group is None or group.names != names:
            rank = names.index(self._name)
            delay = spread_seconds(rank, _BEGIN_A_SECOND, _LONGEST_BEGIN_SECONDS)
            group = _Group(names, rank, time.monotonic() + delay)
            self._groups[event.id.upper()] = group
        return group

    def _write_state(self, event: Event, group: _Group, now: float) -> None:
        """Label this machine's node with its state, if the label differs."""
        with self._lock:
            state, since = self._states.get(event.id.upper(), (PREPARING, now))
        if state == group.written:
            return
        delay = spread_seconds(group.rank, _READY_A_SECOND, _LONGEST_READY_SECONDS)
        if group.written and now < since + delay:
            return
        key = group_key(event.id)
        marks = {"labels": {key: state}, "annotations": {key: self._name}}
        change_node(self._client, self._own_node_name(group), {"metadata": marks})
        group.written = state

    def _own_node_name(self, group: _Group) -> str:
        if self._node:
            return self._node
        self._search(group, self._name)
        if self._name not in group.nodes:
            raise NotFound("NoNode", f"the cluster has no node for this machine, {self._name!r}")
        return group.nodes[self._name]

    def _find_leader(self, event: Event, group: _Group, now: float) -> str:
        """Return the first living machine before this one; empty if this one leads."""
        earlier = group.names[: group.rank]
        leads = not any(group.alive.get(name) for name in earlier)
        interval = _ALIVE_SECONDS if leads else _FOLLOW_SECONDS
        for name in earlier:
            if now - group.looked_at.get(name, _NEVER) >= interval:
                view = None
                if name not in group.nodes:
                    key = group_key(event.id)
                    labelled = {node.name: node for node in nodes(self._client, key)}
                    group.nodes.update(match_names(labelled.values(), group.names, key))
                    view = labelled.get(group.nodes.get(name, ""))
                self._look(group, name, view)
            if group.alive[name]:
                return name
        return ""

    def _lead(self, event: Event, group: _Group) -> GroupMembers:
        """List the labelled nodes; look at some of the machines that are not ready."""
        key = group_key(event.id)
        labelled = {node.name: node for node in nodes(self._client, key)}
        matches = match_names(labelled.values(), group.names, key)
        group.nodes.update(matches)
        states = {name: labelled[node].labels.get(key, "") for name, node in matches.items()}
        others = [name for name in group.names[group.rank + 1 :] if states.get(name) != IS_READY]
        now = time.monotonic()
        due = [n for n in others if now - group.looked_at.get(n, _NEVER) >= _ALIVE_SECONDS]
        due.sort(key=lambda name: group.looked_at.get(name, _NEVER))
        for name in due[:_LEADER_LOOKS]:
            self._look(group, name, labelled.get(group.nodes.get(name, "")))
        alive = {name for name in group.names if group.alive.get(name, True)}
        ready = {name for name, state in states.items() if state == IS_READY}
        failed = {name for name, state in states.items() if state == HAS_FAILED}
        return GroupMembers(frozenset(alive | {self._name}), frozenset(ready), frozenset(failed))

    # --- Machines ---

    def _look(self, group: _Group, name: str, node: NodeView | None = None) -> None:
        """Find out whether a machine is alive; one without a node is not."""
        group.looked_at[name] = time.monotonic()
        self._search(group, name)
        group.alive[name] = False
        if name not in group.nodes:
            return
        try:
            node = node or node_named(self._client, group.nodes[name])
        except NotFound:
            del group.nodes[name]  # it may have another node by now
            return
        group.alive[name] = self._is_alive(node)

    def _search(self, group: _Group, name: str) -> None:
        """Search all nodes for a machine whose node is not known, but only now and then."""
        now = time.monotonic()
        if name in group.nodes or now - group.searched_at < _SEARCH_SECONDS:
            return
        group.searched_at = now
        missing = [name for name in group.names if name not in group.nodes]
        group.nodes.update(match_names(nodes(self._client), missing))

    def _is_alive(self, node: NodeView) -> bool:
        renewed = _renew_time(self._client, node.name)
        now = time.monotonic()
        previous, since = self._renewals.get(node.name, (None, now))
        if renewed != previous:
            since = now
        self._renewals[node.name] = (renewed, since)
        return node.ready and (renewed is None or now - since < _LEASE_SECONDS)


def _renew_time(client: Client, node: str) -> object:
    """Return when a kubelet renewed its lease; None if it has none."""
    from lightkube.resources.coordination_v1 import Lease  # noqa: PLC0415  (an optional dependency)

    try:
        lease = client.get(Lease, node, namespace=LEASES)
    except Exception as error:
        if is_missing(error):
            return None
        raise
    return lease.spec.renewTime if lease.spec else None
