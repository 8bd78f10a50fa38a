"""What people see on the Node: Kubernetes Events, and the condition `ScheduledMaintenance` (G9).

Reports are sent in the background. A failed report never delays or fails a drain.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

from fairwarning.guest.agent.kubernetes.api import CALL_SECONDS, Client, connect, failure_text
from fairwarning.guest.agent.kubernetes.nodes import CONDITION, NodeView, Patch
from fairwarning.guest.events import Event
from fairwarning.guest.text_enum import StrEnum

COMPONENT = "fairwarning-agent"
NAMESPACE = "default"  # of Events about objects without a namespace

_MESSAGE_CHARACTERS = 1000  # the API allows 1,024 bytes
_CONCURRENT_REPORTS = 4  # more are dropped: the API does not answer

log = logging.getLogger(__name__)


class Reason(StrEnum):
    """The reason of a Kubernetes Event."""

    SCHEDULED = "ScheduledMaintenance"
    DRAINING = "Draining"
    DRAINED = "Drained"
    DRAIN_FAILED = "DrainFailed"
    UNCORDONED = "Uncordoned"


_slots = threading.BoundedSemaphore(_CONCURRENT_REPORTS)
_failed = threading.Event()


def report(node: NodeView, reason: Reason, message: str) -> None:
    """Create a Kubernetes Event about a node, in the background."""
    if not _slots.acquire(blocking=False):
        return
    body = _event(node, reason, message)
    threading.Thread(target=_send, args=(body,), name="report", daemon=True).start()


def _send(body: dict[str, Any]) -> None:
    from lightkube.resources.core_v1 import Event as NodeEvent  # noqa: PLC0415  (an optional dependency)

    try:
        client = connect(CALL_SECONDS)
        try:
            client.create(NodeEvent.from_dict(body), namespace=NAMESPACE)
        finally:
            client.close()
        _failed.clear()
    except Exception as error:  # noqa: BLE001  (from the HTTP library that lightkube uses)
        level = logging.DEBUG if _failed.is_set() else logging.WARNING
        _failed.set()
        log.log(level, "cannot create a Kubernetes Event: %s", failure_text(error))
    finally:
        _slots.release()


def _event(node: NodeView, reason: Reason, message: str) -> dict[str, Any]:
    now = _timestamp(datetime.now(timezone.utc))
    return {
        "metadata": {"generateName": f"{node.name}.", "namespace": NAMESPACE},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid},
        "reason": str(reason),
        "message": _shorten(message),
        "type": "Warning" if reason is Reason.DRAIN_FAILED else "Normal",
        "source": {"component": COMPONENT, "host": node.name},
        "reportingComponent": COMPONENT,
        "reportingInstance": node.name,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }


def condition_patch(node: NodeView, events: Sequence[Event]) -> Patch | None:
    """Return the strategic merge patch that shows these events as a condition; None if it does."""
    event = min(events, key=_start) if events else None
    status, reason, message = ("False", "NoEvents", "no event is scheduled for this machine")
    if event is not None:
        status, reason, message = "True", str(event.type), _describe(event)
    current = node.condition
    shown = (current.get("status"), current.get("reason"), current.get("message"))
    if shown == (status, reason, message):
        return None
    now = _timestamp(datetime.now(timezone.utc))
    since = current.get("lastTransitionTime") if current.get("status") == status else now
    condition = {
        "type": CONDITION,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": since or now,
    }
    return {"status": {"conditions": [condition]}}


def change_condition(client: Client, node: NodeView, patch: Patch) -> None:
    """Change the condition of a node; other conditions stay."""
    from lightkube.resources.core_v1 import Node  # noqa: PLC0415  (an optional dependency)
    from lightkube.types import PatchType  # noqa: PLC0415  (as above)

    client.patch(Node.Status, node.name, patch, patch_type=PatchType.STRATEGIC)


def _describe(event: Event) -> str:
    if event.started:
        return f"{event.type} {event.id} has started"
    if event.not_before is None:
        return f"{event.type} {event.id} is scheduled"
    return f"{event.type} {event.id} is scheduled, not before {_timestamp(event.not_before)}"


def _start(event: Event) -> tuple[bool, datetime]:
    """Order events: started ones first, then by NotBefore."""
    return not event.started, event.not_before or datetime.max.replace(tzinfo=timezone.utc)


def _timestamp(moment: datetime) -> str:
    return moment.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _shorten(text: str) -> str:
    cut = text.encode()[:_MESSAGE_CHARACTERS].decode("utf-8", "ignore")
    return cut if cut == text else f"{cut} ..."
