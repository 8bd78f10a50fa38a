"""The Kubernetes API as far as the agent needs it: a call until a deadline, nodes, their marks.

lightkube, of the extra `kubernetes`, is imported inside functions only.
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
from fairwarning.guest.events import Event, plain

NODE_NAME = "NODE_NAME"  # the variable that names this machine's node, if it is set
TAINT = "fairwarning.dev/event"  # its value is the type of the event that came last
EVENT_ID = "fairwarning.dev/event-id"  # the events that marked the node, with commas between
CORDONED = "fairwarning.dev/cordoned"  # those we cordoned it for; missing: it was not us

CALL_SECONDS = 5.0  # an answer takes milliseconds
_SHORTEST_CALL_SECONDS = 0.1
_SPARE_SECONDS = 1.0  # to say what remains: at the deadline itself, nobody listens any more ...
_SPARE_SHARE = 0.1  # ... but no more than this part of a short time
_PAUSE_SECONDS = (1.0, 5.0)  # between tries: the least, and what kubectl takes
LABEL_CHARACTERS = 63
_PAUSE_SHARE = 1 / 30  # of the time that is left

Client = Any  # lightkube's
Patch = dict[str, Any]
T = TypeVar("T")

log = logging.getLogger(__name__)


# --- The cluster ----------------------------------------------------------------------------------


def connect(seconds: float) -> Client:
    """A client whose calls take so long at most; `Refused` where there is no cluster to talk to."""
    try:
        import lightkube  # noqa: PLC0415  (an extra has it)
    except ImportError as error:
        text = "Kubernetes needs lightkube: pip install 'fairwarning[kubernetes]'"
        raise Refused("NoLightkube", text) from error
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # else a line for each request
    try:
        made: Any = lightkube.Client
        return made(timeout=seconds)
    except Exception as error:  # a configuration can be wrong in any way
        text = (
            f"no Kubernetes cluster can be used: {text_of(error)}. Run in a pod that has a service"
            " account, or name a kubeconfig in KUBECONFIG"
        )
        raise Refused("NoCluster", text) from error


class KubernetesClient:
    """The Kubernetes API until a deadline. Trouble that may pass is waited out."""

    def __init__(self, deadline: datetime, unwanted: Callable[[], bool] = lambda: False) -> None:
        left = deadline.timestamp() - time.time()
        left -= min(_SPARE_SECONDS, left * _SPARE_SHARE)
        self._ends = time.monotonic() + left
        self._unwanted = unwanted
        self._seconds = 0.0
        self._client: Client = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()

    def left(self) -> float:
        """Seconds until the deadline."""
        return self._ends - time.monotonic()

    def client(self) -> Client:
        """Whose calls end before the deadline does; raises if there is nothing more to do."""
        if self._unwanted():
            raise Unavailable("Over", "the event is over: nothing more is prepared for it")
        left = self.left()
        if left <= 0:
            raise Unavailable("NoTimeLeft", "the time is up")
        if self._client is None or left < self._seconds:
            self.__exit__()
            self._seconds = max(_SHORTEST_CALL_SECONDS, min(CALL_SECONDS, left / 2))
            self._client = connect(self._seconds)
        return self._client

    def pause(self) -> None:
        """Wait before another try."""
        least, most = _PAUSE_SECONDS
        left = self.left()
        time.sleep(max(0.0, min(max(least, left * _PAUSE_SHARE), most, left)))

    def call(self, ask: Callable[[Client], T]) -> T:
        """The answer, however often it takes to get one."""
        trouble = ""
        while True:
            try:
                client = self.client()
            except Unavailable as error:
                raise Unavailable(error.code, f"{error.message}{trouble}") from error
            try:
                return ask(client)
            except Refused:
                raise
            except Exception as error:  # of whatever HTTP library lightkube has
                if not passes(status_of(error)):
                    raise refused(error) from error
                trouble = f"; the Kubernetes API failed: {text_of(error)}"
                log.warning("the Kubernetes API failed, trying again: %s", text_of(error))
            self.pause()

    def change(
        self, machine: Callable[[], str], patch: Callable[["NodeView"], Patch | None]
    ) -> str:
        """Change this machine's node, unless it is as it should be; its name."""

        def step(client: Client) -> str:
            node = own_node(client, machine)
            if (changed := patch(node)) is not None:
                change_node(client, node.name, changed)
            return node.name

        return self.call(step)


def status_of(error: Exception) -> int:
    """What the API answered; 0: nothing."""
    return int(getattr(getattr(error, "response", None), "status_code", 0))


def passes(status: int) -> bool:
    """Whether trouble may pass; a conflict means that somebody else changed the node just now."""
    waits = {0, HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS}
    return status in waits or status >= HTTPStatus.INTERNAL_SERVER_ERROR


def refused(error: Exception) -> Refused:
    """What the API will never do, in our words."""
    text = f"the Kubernetes API refuses: {text_of(error)}"
    if status_of(error) == HTTPStatus.FORBIDDEN:
        text += "; examples/kubernetes/daemonset.yaml has the rights that are needed"
    return Refused("Kubernetes", text)


def text_of(error: Exception) -> str:
    """What an error says, on one line."""
    return " ".join(str(error).split()) or type(error).__name__


# --- Nodes ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeView:
    """What we look at of a node."""

    name: str
    version: str
    provider: str
    unschedulable: bool
    ready: bool
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Mapping[str, str], ...] = ()


def node_of(told: Mapping[str, Any]) -> NodeView:
    """What we look at of a node, of all that the API tells."""
    about, spec = told["metadata"], told.get("spec", {})
    conditions = told.get("status", {}).get("conditions", ())
    return NodeView(
        about["name"],
        about.get("resourceVersion", ""),
        spec.get("providerID", ""),
        spec.get("unschedulable", False),
        any(one["type"] == "Ready" and one["status"] == "True" for one in conditions),
        about.get("annotations", {}),
        tuple(spec.get("taints", ())),
    )


def node_named(client: Client, name: str) -> NodeView:
    """The node of this name."""
    from lightkube.resources.core_v1 import Node  # noqa: PLC0415  (an extra has it)

    try:
        return node_of(client.get(Node, name).to_dict())
    except Exception as error:
        if status_of(error) == HTTPStatus.NOT_FOUND:
            raise NotFound("NoNode", f"the cluster has no node {name!r}") from error
        raise


def all_nodes(client: Client) -> list[NodeView]:
    """Every node."""
    from lightkube.resources.core_v1 import Node  # noqa: PLC0415  (as above)

    return [node_of(raw.to_dict()) for raw in client.list(Node)]


def change_node(client: Client, name: str, patch: Patch) -> None:
    """One change, whole or not at all."""
    from lightkube.resources.core_v1 import Node  # noqa: PLC0415  (as above)
    from lightkube.types import PatchType  # noqa: PLC0415

    client.patch(Node, name, patch, patch_type=PatchType.MERGE)


def own_node(client: Client, machine: Callable[[], str]) -> NodeView:
    """This machine's node: the one that the environment names, else the one that fits."""
    if name := os.environ.get(NODE_NAME):
        return node_named(client, name)
    return fitting(all_nodes(client), machine())


def fitting(nodes: list[NodeView], machine: str) -> NodeView:
    """The node of a machine: by its providerID, else by its name."""
    named = plain(machine)
    fits = [node for node in nodes if named in _names(node.provider)]
    fits = fits or [node for node in nodes if plain(node.name) == named]
    if len(fits) == 1:
        return fits[0]
    found = f"fits {', '.join(node.name for node in fits)}" if fits else "is no node of the cluster"
    text = f"machine {machine!r} {found}: set {NODE_NAME} to the name of this machine's node"
    raise NotFound("NoNode", text)


def _names(provider: str) -> set[str]:
    """What events may call the machine that has this providerID."""
    path = provider.partition("://")[2].rstrip("/")
    *_, kind, owner, _, last = ["", "", "", *path.split("/")]
    if kind.lower() == "virtualmachinescalesets":  # .../NAME/virtualMachines/0 is NAME_0 in events
        last = f"{owner}_{last}"
    return {plain(path), plain(last)} - {""}


# --- Marks ----------------------------------------------------------------------------------------


def marked(node: NodeView, event: Event, *, cordon: bool) -> Patch | None:
    """How to mark a node for an event, all in one; None if it is."""
    notes, spec = {EVENT_ID: _with(node, EVENT_ID, event)}, dict[str, Any]()
    if cordon and (CORDONED in node.annotations or not node.unschedulable):
        notes[CORDONED] = _with(node, CORDONED, event)
        if not node.unschedulable:
            spec["unschedulable"] = True
    value = re.sub(r"[^A-Za-z0-9]", "", event.type)[:LABEL_CHARACTERS]
    taint = {"key": TAINT, "value": value, "effect": "NoSchedule"}
    if not any(taint.items() <= one.items() for one in node.taints):
        spec["taints"] = [*_others(node), taint]
    same = notes.items() <= node.annotations.items()
    return None if same and not spec else _at(node, notes, spec)


def unmarked(node: NodeView, event: Event) -> Patch | None:
    """How to take an event's marks off; None if there are none."""
    marked, cordoned = _ids(node, EVENT_ID), _ids(node, CORDONED)
    key = event.id.upper()
    if key not in marked + cordoned:
        return None
    marked, cordoned = ([one for one in ids if one != key] for ids in (marked, cordoned))
    spec: dict[str, Any] = {}
    if not cordoned and CORDONED in node.annotations:
        spec["unschedulable"] = None
    if not marked:
        spec["taints"] = _others(node)
    notes = {EVENT_ID: ",".join(marked) or None, CORDONED: ",".join(cordoned) or None}
    return _at(node, notes, spec)


def _at(node: NodeView, notes: Mapping[str, str | None], spec: Mapping[str, Any]) -> Patch:
    """Only if nobody changed the node since we read it: its taints are written as a whole."""
    return {"metadata": {"resourceVersion": node.version, "annotations": notes}, "spec": spec}


def _ids(node: NodeView, name: str) -> list[str]:
    return [one for one in node.annotations.get(name, "").split(",") if one]


def _with(node: NodeView, name: str, event: Event) -> str:
    ids = _ids(node, name)
    return ",".join(ids if event.id.upper() in ids else [*ids, event.id.upper()])


def _others(node: NodeView) -> list[Mapping[str, str]]:
    return [one for one in node.taints if one["key"] != TAINT]
