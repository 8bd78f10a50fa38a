"""Nodes: finding this machine's, and the marks that events leave on it.

An event's marks are a taint, a cordon and annotations, changed together by one patch, and a label
for the group.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fairwarning.core.errors import NotFound
from fairwarning.guest.agent.kubernetes.api import ApiObject, Client, KubernetesClient, is_missing
from fairwarning.guest.events import Event, normalize_name

NODE_NAME = "NODE_NAME"  # the environment variable with this machine's node name, if set
TAINT = "fairwarning.dev/event"  # its value is the type of the latest event
EVENT_ID = "fairwarning.dev/event-id"  # the events that marked the node, separated by commas
CORDONED = "fairwarning.dev/cordoned"  # the events we cordoned it for; absent: we did not cordon
READY = "fairwarning.dev/ready-"
"""A label with a machine's state and an annotation with its name, followed by the event's id."""
CONDITION = "ScheduledMaintenance"

LABEL_CHARACTERS = 63
PAGE_NODES = 100  # a node takes 10 to 20 KiB, and more once it is parsed
_HASH_CHARACTERS = 32

Patch = dict[str, Any]

changing_marks = threading.Lock()
"""Held from reading a node until its marks are changed, so that no two threads undo each other."""


@dataclass(frozen=True)
class NodeView:
    """The parts of a node that the agent uses."""

    name: str
    uid: str
    version: str
    provider: str
    unschedulable: bool
    ready: bool
    annotations: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()
    condition: Mapping[str, Any] = field(default_factory=dict)


def node_of(node: ApiObject) -> NodeView:
    """Take what is needed from lightkube's node, and let go of the rest."""
    metadata, spec, status = node.metadata, node.spec, node.status
    conditions = (status.conditions if status else None) or ()
    return NodeView(
        metadata.name,
        metadata.uid or "",
        metadata.resourceVersion or "",
        (spec.providerID if spec else "") or "",
        bool(spec and spec.unschedulable),
        any(condition.type == "Ready" and condition.status == "True" for condition in conditions),
        metadata.annotations or {},
        metadata.labels or {},
        tuple(taint.to_dict() for taint in (spec.taints if spec else None) or ()),
        next((item.to_dict() for item in conditions if item.type == CONDITION), {}),
    )


def node_named(client: Client, name: str) -> NodeView:
    """Return the node with this name."""
    from lightkube.resources.core_v1 import Node  # noqa: PLC0415  (an optional dependency)

    try:
        return node_of(client.get(Node, name))
    except Exception as error:
        if is_missing(error):
            raise NotFound("NoNode", f"the cluster has no node {name!r}") from error
        raise


def nodes(client: Client, label: str = "") -> Iterator[NodeView]:
    """Return all nodes, or those with a label, a page at a time."""
    from lightkube.resources.core_v1 import Node  # noqa: PLC0415  (as above)

    selector = {label: None} if label else None
    return map(node_of, client.list(Node, chunk_size=PAGE_NODES, labels=selector))


def change_node(client: Client, name: str, patch: Patch) -> None:
    """Patch a node atomically."""
    from lightkube.resources.core_v1 import Node  # noqa: PLC0415  (as above)
    from lightkube.types import PatchType  # noqa: PLC0415  (as above)

    client.patch(Node, name, patch, patch_type=PatchType.MERGE)


def change_marks(
    cluster: KubernetesClient, machine: Callable[[], str], patch: Callable[[NodeView], Patch | None]
) -> NodeView:
    """Patch this machine's node if `patch` returns a change; return the node as it was."""

    def step(client: Client) -> NodeView:
        with changing_marks:
            node = own_node(client, machine)
            if (changed := patch(node)) is not None:
                change_node(client, node.name, changed)
            return node

    return cluster.call(step)


# --- Finding --------------------------------------------------------------------------------------


def own_node(client: Client, machine: Callable[[], str]) -> NodeView:
    """Return this machine's node: the one in NODE_NAME, or the one that matches."""
    if name := os.environ.get(NODE_NAME):
        return node_named(client, name)
    return match_node(nodes(client), machine())


def match_node(candidates: Iterable[NodeView], machine: str) -> NodeView:
    """Return the node of a machine: by providerID, otherwise by name."""
    name = normalize_name(machine)
    by_provider: list[NodeView] = []
    by_name: list[NodeView] = []
    for node in candidates:
        if name in provider_names(node.provider):
            by_provider.append(node)
        elif normalize_name(node.name) == name:
            by_name.append(node)
    matches = by_provider or by_name
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(node.name for node in matches)
    problem = f"matches several nodes ({names})" if matches else "is not a node of the cluster"
    text = f"machine {machine!r} {problem}: set {NODE_NAME} to the name of this machine's node"
    raise NotFound("NoNode", text)


def match_names(
    candidates: Iterable[NodeView], machines: Collection[str], key: str = ""
) -> dict[str, str]:
    """Return the node names of machines, by normalized machine name; leave out the ambiguous.

    The annotation `key` has the name of a machine that has marked its node itself.
    """
    by_provider: dict[str, set[str]] = {}
    by_name: dict[str, set[str]] = {}
    by_itself: dict[str, set[str]] = {}
    for node in candidates:
        if key and (name := node.annotations.get(key, "")) in machines:
            by_itself.setdefault(name, set()).add(node.name)
        for name in provider_names(node.provider) & set(machines):
            by_provider.setdefault(name, set()).add(node.name)
        if (name := normalize_name(node.name)) in machines:
            by_name.setdefault(name, set()).add(node.name)
    matches = {**by_name, **by_provider, **by_itself}
    return {name: min(names) for name, names in matches.items() if len(names) == 1}


def provider_names(provider: str) -> set[str]:
    """Return the names that events may use for a machine with this providerID."""
    path = provider.partition("://")[2].rstrip("/")
    *_, kind, owner, _, last = ["", "", "", *path.split("/")]
    if kind.lower() == "virtualmachinescalesets":  # .../NAME/virtualMachines/0 is NAME_0 in events
        last = f"{owner}_{last}"
    return {normalize_name(path), normalize_name(last)} - {""}


# --- Marks ----------------------------------------------------------------------------------------


def mark_patch(node: NodeView, event: Event, *, cordon: bool) -> Patch | None:
    """Return the patch that marks a node for an event; None if it is marked."""
    notes, spec = {EVENT_ID: _add_id(node, EVENT_ID, event)}, dict[str, Any]()
    if cordon and (CORDONED in node.annotations or not node.unschedulable):
        notes[CORDONED] = _add_id(node, CORDONED, event)
        if not node.unschedulable:
            spec["unschedulable"] = True
    value = re.sub(r"[^A-Za-z0-9]", "", event.type)[:LABEL_CHARACTERS]
    taint = {"key": TAINT, "value": value, "effect": "NoSchedule"}
    if not any(taint.items() <= existing.items() for existing in node.taints):
        spec["taints"] = [*_other_taints(node), taint]
    same = notes.items() <= node.annotations.items()
    return None if same and not spec else _patch(node, {"annotations": notes}, spec)


def unmark_patch(node: NodeView, event: Event) -> Patch | None:
    """Return the patch that removes an event's marks; None if there are none."""
    key = event.id.upper()
    return clear_patch(node, {key}) if key in marked_events(node) else None


def clear_patch(node: NodeView, gone: Collection[str], keys: Collection[str] = ()) -> Patch | None:
    """Return the patch that removes the marks of events and keys of the group; None if none.

    A taint or cordon of ours that is left without an event is removed as well.
    """
    marked = [id_ for id_ in _ids(node, EVENT_ID) if id_ not in gone]
    cordoned = [id_ for id_ in _ids(node, CORDONED) if id_ not in gone]
    notes: dict[str, str | None] = {}
    for name, left in ((EVENT_ID, marked), (CORDONED, cordoned)):
        if node.annotations.get(name) != (",".join(left) or None):
            notes[name] = ",".join(left) or None
    spec: dict[str, Any] = {}
    if not cordoned and CORDONED in node.annotations:
        spec["unschedulable"] = None
    if not marked and len(_other_taints(node)) != len(node.taints):
        spec["taints"] = _other_taints(node)
    notes.update({key: None for key in keys if key in node.annotations})
    labels = {key: None for key in keys if key in node.labels}
    if not notes and not spec and not labels:
        return None
    return _patch(node, {"annotations": notes, "labels": labels}, spec)


def marked_events(node: NodeView) -> set[str]:
    """Return the events whose marks a node has."""
    return {*_ids(node, EVENT_ID), *_ids(node, CORDONED)}


def group_keys(node: NodeView) -> set[str]:
    """Return the keys of a node's marks for groups."""
    return {key for key in (*node.labels, *node.annotations) if key.startswith(READY)}


def group_key(event: str) -> str:
    """Return the key of an event's label. An id that does not fit is replaced by its hash."""
    name = event.lower()
    longest = LABEL_CHARACTERS - len(READY.partition("/")[2])
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", name) or len(name) > longest:
        name = hashlib.sha256(event.upper().encode()).hexdigest()[:_HASH_CHARACTERS]
    return READY + name


def has_orphans(node: NodeView) -> bool:
    """Whether a node has our taint or our cordon without an event."""
    tainted = len(_other_taints(node)) != len(node.taints)
    cordoned = CORDONED in node.annotations
    return (tainted and not _ids(node, EVENT_ID)) or (cordoned and not _ids(node, CORDONED))


def _patch(node: NodeView, metadata: Mapping[str, Any], spec: Mapping[str, Any]) -> Patch:
    """Return a patch that fails if the node has changed since: taints are replaced as a whole."""
    changed = {name: value for name, value in metadata.items() if value}
    return {"metadata": {"resourceVersion": node.version, **changed}, "spec": spec}


def _ids(node: NodeView, name: str) -> list[str]:
    return [id_.upper() for id_ in node.annotations.get(name, "").split(",") if id_]


def _add_id(node: NodeView, name: str, event: Event) -> str:
    ids = _ids(node, name)
    return ",".join(ids if event.id.upper() in ids else [*ids, event.id.upper()])


def _other_taints(node: NodeView) -> list[Mapping[str, str]]:
    return [taint for taint in node.taints if taint["key"] != TAINT]
