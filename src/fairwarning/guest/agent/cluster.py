"""The Kubernetes API for the agent: calls with a deadline, nodes, and their taints.

lightkube, which the extra `kubernetes` installs, is imported inside functions only.
"""

import logging
import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any, Self, TypeVar

from fairwarning.core.errors import NotFound, Refused, Unavailable
from fairwarning.guest.events import Event, normalize_name

NODE_NAME = "NODE_NAME"  # the environment variable with this machine's node name, if set
TAINT = "fairwarning.dev/event"  # its value is the type of the latest event
EVENT_ID = "fairwarning.dev/event-id"  # the events that marked the node, separated by commas
CORDONED = "fairwarning.dev/cordoned"  # the events we cordoned it for; absent: we did not cordon

CALL_SECONDS = 5.0  # a response usually takes milliseconds
_SHORTEST_CALL_SECONDS = 0.1
_SPARE_SECONDS = 1.0  # reserved to report remaining pods before the deadline ...
_SPARE_SHARE = 0.1  # ... but at most this share of a short time
_PAUSE_SECONDS = (1.0, 5.0)  # between attempts: minimum, and maximum as in kubectl
LABEL_CHARACTERS = 63
_PAUSE_SHARE = 1 / 30  # of the remaining time

Client = Any  # lightkube's
Patch = dict[str, Any]
T = TypeVar("T")

log = logging.getLogger(__name__)


# --- The cluster ----------------------------------------------------------------------------------


def connect(seconds: float) -> Client:
    """Return a client with this timeout; raise `Refused` if no cluster is configured."""
    try:
        import lightkube  # noqa: PLC0415  (an optional dependency)
    except ImportError as error:
        text = "Kubernetes needs lightkube: pip install 'fairwarning[kubernetes]'"
        raise Refused("NoLightkube", text) from error
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # otherwise it logs every request
    try:
        client_class: Any = lightkube.Client
        return client_class(timeout=seconds)
    except Exception as error:  # lightkube raises many kinds for a bad configuration
        text = (
            f"cannot connect to a Kubernetes cluster: {error_text(error)}. Run in a pod with a"
            " service account, or set KUBECONFIG to a kubeconfig file"
        )
        raise Refused("NoCluster", text) from error


class KubernetesClient:
    """Calls to the Kubernetes API until a deadline. Transient failures are retried."""

    def __init__(
        self, deadline: datetime, is_cancelled: Callable[[], bool] = lambda: False
    ) -> None:
        left = deadline.timestamp() - time.time()
        left -= min(_SPARE_SECONDS, left * _SPARE_SHARE)
        self._deadline = time.monotonic() + left
        self._is_cancelled = is_cancelled
        self._seconds = 0.0
        self._client: Client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()

    def seconds_left(self) -> float:
        """Return the seconds until the deadline."""
        return self._deadline - time.monotonic()

    def client(self) -> Client:
        """Return a client whose calls end before the deadline; raise if it is too late."""
        if self._is_cancelled():
            raise Unavailable("Over", "the event is over, so its preparation stops")
        left = self.seconds_left()
        if left <= 0:
            raise Unavailable("NoTimeLeft", "the deadline has passed")
        if self._client is None or left < self._seconds:
            self.__exit__()
            self._seconds = max(_SHORTEST_CALL_SECONDS, min(CALL_SECONDS, left / 2))
            self._client = connect(self._seconds)
        return self._client

    def pause(self) -> None:
        """Wait before the next attempt."""
        shortest, longest = _PAUSE_SECONDS
        left = self.seconds_left()
        time.sleep(max(0.0, min(max(shortest, left * _PAUSE_SHARE), longest, left)))

    def call(self, operation: Callable[[Client], T]) -> T:
        """Return the result of an operation; retry transient failures."""
        failure = ""
        while True:
            try:
                client = self.client()
            except Unavailable as error:
                raise Unavailable(error.code, f"{error.message}{failure}") from error
            try:
                return operation(client)
            except Refused:
                raise
            except Exception as error:  # from the HTTP library that lightkube uses
                if not is_transient(status_of(error)):
                    raise refusal_of(error) from error
                failure = f"; the Kubernetes API failed: {error_text(error)}"
                log.warning("Kubernetes API call failed: %s; retrying", error_text(error))
            self.pause()

    def change(
        self, machine: Callable[[], str], patch: Callable[["NodeView"], Patch | None]
    ) -> str:
        """Patch this machine's node if `patch` returns a change; return the node's name."""

        def step(client: Client) -> str:
            node = own_node(client, machine)
            if (changed := patch(node)) is not None:
                change_node(client, node.name, changed)
            return node.name

        return self.call(step)


def status_of(error: Exception) -> int:
    """Return the HTTP status of a failed call; 0 if there was no response."""
    return int(getattr(getattr(error, "response", None), "status_code", 0))


def is_transient(status: int) -> bool:
    """Whether a retry may succeed; a conflict means that another client changed the node."""
    retried = {0, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS}
    return status in retried or status >= HTTPStatus.INTERNAL_SERVER_ERROR


def refusal_of(error: Exception) -> Refused:
    """Convert a permanent error of the API."""
    text = f"the Kubernetes API refused the request: {error_text(error)}"
    if status_of(error) == HTTPStatus.FORBIDDEN:
        text += "; examples/kubernetes/daemonset.yaml lists the permissions that are needed"
    return Refused("Kubernetes", text)


def error_text(error: Exception) -> str:
    """Return an error's message on one line."""
    return " ".join(str(error).split()) or type(error).__name__


# --- Nodes ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeView:
    """The parts of a node that the agent uses."""

    name: str
    version: str
    provider: str
    unschedulable: bool
    ready: bool
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()


def node_of(raw: Mapping[str, Any]) -> NodeView:
    """Parse a node of the Kubernetes API."""
    metadata, spec = raw["metadata"], raw.get("spec", {})
    conditions = raw.get("status", {}).get("conditions", ())
    return NodeView(
        metadata["name"],
        metadata.get("resourceVersion", ""),
        spec.get("providerID", ""),
        spec.get("unschedulable", False),
        any(item["type"] == "Ready" and item["status"] == "True" for item in conditions),
        metadata.get("annotations", {}),
        tuple(spec.get("taints", ())),
    )


def node_named(client: Client, name: str) -> NodeView:
    """Return the node with this name."""
    from lightkube.resources.core_v1 import Node  # noqa: PLC0415  (an optional dependency)

    try:
        return node_of(client.get(Node, name).to_dict())
    except Exception as error:
        if status_of(error) == HTTPStatus.NOT_FOUND:
            raise NotFound("NoNode", f"the cluster has no node {name!r}") from error
        raise


def all_nodes(client: Client) -> list[NodeView]:
    """Return every node."""
    from lightkube.resources.core_v1 import Node  # noqa: PLC0415  (as above)

    return [node_of(raw.to_dict()) for raw in client.list(Node)]


def change_node(client: Client, name: str, patch: Patch) -> None:
    """Patch a node atomically."""
    from lightkube.resources.core_v1 import Node  # noqa: PLC0415  (as above)
    from lightkube.types import PatchType  # noqa: PLC0415

    client.patch(Node, name, patch, patch_type=PatchType.MERGE)


def own_node(client: Client, machine: Callable[[], str]) -> NodeView:
    """Return this machine's node: the one in NODE_NAME, or the one that matches."""
    if name := os.environ.get(NODE_NAME):
        return node_named(client, name)
    return match_node(all_nodes(client), machine())


def match_node(nodes: list[NodeView], machine: str) -> NodeView:
    """Return the node of a machine: by providerID, otherwise by name."""
    name = normalize_name(machine)
    matches = [node for node in nodes if name in _names(node.provider)]
    matches = matches or [node for node in nodes if normalize_name(node.name) == name]
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(node.name for node in matches)
    problem = f"matches several nodes ({names})" if matches else "is not a node of the cluster"
    text = f"machine {machine!r} {problem}: set {NODE_NAME} to the name of this machine's node"
    raise NotFound("NoNode", text)


def _names(provider: str) -> set[str]:
    """Return the names that events may use for a machine with this providerID."""
    path = provider.partition("://")[2].rstrip("/")
    *_, kind, owner, _, last = ["", "", "", *path.split("/")]
    if kind.lower() == "virtualmachinescalesets":  # .../NAME/virtualMachines/0 is NAME_0 in events
        last = f"{owner}_{last}"
    return {normalize_name(path), normalize_name(last)} - {""}


# --- Taints and annotations -----------------------------------------------------------------------


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
    return None if same and not spec else _patch(node, notes, spec)


def unmark_patch(node: NodeView, event: Event) -> Patch | None:
    """Return the patch that removes an event's marks; None if there are none."""
    marked, cordoned = _ids(node, EVENT_ID), _ids(node, CORDONED)
    key = event.id.upper()
    if key not in marked + cordoned:
        return None
    marked, cordoned = ([id_ for id_ in ids if id_ != key] for ids in (marked, cordoned))
    spec: dict[str, Any] = {}
    if not cordoned and CORDONED in node.annotations:
        spec["unschedulable"] = None
    if not marked:
        spec["taints"] = _other_taints(node)
    notes = {EVENT_ID: ",".join(marked) or None, CORDONED: ",".join(cordoned) or None}
    return _patch(node, notes, spec)


def _patch(node: NodeView, notes: Mapping[str, str | None], spec: Mapping[str, Any]) -> Patch:
    """Return a patch that fails if the node has changed since: taints are replaced as a whole."""
    return {"metadata": {"resourceVersion": node.version, "annotations": notes}, "spec": spec}


def _ids(node: NodeView, name: str) -> list[str]:
    return [id_ for id_ in node.annotations.get(name, "").split(",") if id_]


def _add_id(node: NodeView, name: str, event: Event) -> str:
    ids = _ids(node, name)
    return ",".join(ids if event.id.upper() in ids else [*ids, event.id.upper()])


def _other_taints(node: NodeView) -> list[Mapping[str, str]]:
    return [taint for taint in node.taints if taint["key"] != TAINT]
