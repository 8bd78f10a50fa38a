"""Upkeep of this machine's node: marks without an event are undone, the condition is kept (G9).

Hooks and journals can fail or be lost, and the marks that they left would stay for ever. So the
agent compares the node with the document of the endpoint: at its start, when the document changes,
and every minute.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

from fairwarning.core.errors import NotFound
from fairwarning.guest.agent import agent_metrics
from fairwarning.guest.agent.kubernetes.api import (
    CALL_SECONDS,
    Client,
    LastingFailure,
    connect,
    spread_seconds,
)
from fairwarning.guest.agent.kubernetes.hooks import end_preparations, prepared_events
from fairwarning.guest.agent.kubernetes.nodes import (
    NODE_NAME,
    NodeView,
    change_node,
    changing_marks,
    clear_patch,
    group_key,
    group_keys,
    has_orphans,
    marked_events,
    match_node,
    node_named,
    own_node,
)
from fairwarning.guest.agent.kubernetes.reports import (
    Reason,
    change_condition,
    condition_patch,
    report,
)
from fairwarning.guest.events import Document, normalize_name

LOOK_SECONDS = 60.0  # between looks at the node
CONFIRM_SECONDS = 5.0  # between looks while a mark without an event is not confirmed
SETTLE_SECONDS = 2.0  # how much younger than the mark's first sight a document must be
DRILL_SECONDS = 3600.0  # the same for the mark of a drill, which no document lists
RETRY_SECONDS = 10.0  # after a failure
_LOOKS_A_SECOND = 3  # by machines of one large event, when it changes
_LONGEST_SPREAD_SECONDS = 20.0
_DRILL = "DRILL-"  # the ids of drills begin with it
_ORPHANS = "a taint or cordon of ours without an event"

log = logging.getLogger(__name__)


class NodeReconciler:
    """Undoes marks on this machine's node whose event is not in the document.

    A second agent of the machine may have marked the node for an event that this one has not read
    yet. So a mark is undone only after a document that was read later than the mark was first seen.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._document: Document | None = None
        self._read_at = float("-inf")
        self._suspects: dict[str, float] = {}  # marks without an event, and when first seen
        self._node_name = ""
        self._client: Client = None
        self._failures = {"marks": LastingFailure(), "condition": LastingFailure()}

    def observe(self, document: Document, read_at: float) -> None:
        """Take a document that the endpoint sent, and when, by `time.monotonic`."""
        with self._lock:
            is_changed = self._document is None or self._document.events != document.events
            self._document, self._read_at = document, read_at
        end_preparations({event.id.upper() for event in document.events})
        if is_changed:
            self._wake.set()

    def run(self, stopped: threading.Event) -> None:
        """Look at the node until stopped."""
        while not stopped.is_set():
            pause = self.look()
            if self._wake.wait(pause):
                stopped.wait(self._spread_seconds())
            self._wake.clear()

    def _spread_seconds(self) -> float:
        """Return how long to wait after a change, if it concerns many machines."""
        assert self._document is not None
        own = normalize_name(self._name)
        ranks = [
            [normalize_name(name) for name in event.resources].index(own)
            for event in self._document.events
            if event.concerns(self._name)
        ]
        return spread_seconds(max(ranks, default=0), _LOOKS_A_SECOND, _LONGEST_SPREAD_SECONDS)

    def look(self) -> float:
        """Compare the node with the document once; return the seconds until the next look."""
        if self._document is None:
            return LOOK_SECONDS
        result: list[tuple[NodeView, bool]] = []
        if not self._try("marks", lambda client: result.append(self._clear_marks(client))):
            return RETRY_SECONDS
        node, is_pending = result[0]
        if not self._try("condition", lambda client: self._keep_condition(client, node)):
            return RETRY_SECONDS
        return CONFIRM_SECONDS if is_pending else LOOK_SECONDS

    def _try(self, what: str, step: Callable[[Client], None]) -> bool:
        """Take a step; return whether it succeeded. A failure is logged once, when it lasts."""
        try:
            if self._client is None:
                self._client = connect(CALL_SECONDS)
            step(self._client)
        except Exception as error:  # noqa: BLE001  (from the HTTP library that lightkube uses)
            self._failures[what].observe(error)
            self.close()
            return False
        self._failures[what].ended()
        return True

    def close(self) -> None:
        """Close the connection; the next look opens a new one, with new credentials."""
        if self._client is not None:
            self._client.close()
            self._client = None

    # --- Marks ---

    def _clear_marks(self, client: Client) -> tuple[NodeView, bool]:
        """Undo confirmed marks; return the node, and whether others wait for confirmation."""
        with changing_marks:
            node = self._own_node(client)
            with self._lock:  # after the node: a mark that it shows is younger than the document
                assert self._document is not None
                document, read_at = self._document, self._read_at
            live = {event.id.upper() for event in document.events} | prepared_events()
            suspects = self._suspect(node, live)
            agent_metrics.NODES_WITHOUT_EVENT.set(bool(suspects))
            confirmed = {
                mark for mark, seen in suspects.items() if read_at >= seen + _settle_seconds(mark)
            }
            if not confirmed:
                return node, not all(mark.startswith(_DRILL) for mark in suspects)
            gone = marked_events(node) & confirmed
            patch = clear_patch(node, gone, group_keys(node) & confirmed)
            if patch is not None:
                change_node(client, node.name, patch)
        self._suspects = {mark: at for mark, at in suspects.items() if mark not in confirmed}
        agent_metrics.NODES_WITHOUT_EVENT.set(bool(self._suspects))
        if gone or _ORPHANS in confirmed:
            text = f"{', '.join(sorted(gone)) or 'an unknown event'}, which is not scheduled"
            log.warning("node %s had marks of %s; they are removed", node.name, text)
            report(node, Reason.UNCORDONED, f"Removed marks of {text}")
        return node, bool(self._suspects)

    def _own_node(self, client: Client) -> NodeView:
        """Return this machine's node; search all nodes only if it is not the one of last time."""
        if self._node_name and not os.environ.get(NODE_NAME):
            with suppress(NotFound):
                return match_node([node_named(client, self._node_name)], self._name)
        node = own_node(client, lambda: self._name)
        self._node_name = node.name
        return node

    def _suspect(self, node: NodeView, live: set[str]) -> dict[str, float]:
        """Return the marks without an event, each with the time when it was first seen."""
        marks = marked_events(node) - live
        marks |= group_keys(node) - {group_key(id_) for id_ in live}
        if has_orphans(node) and not live:
            marks.add(_ORPHANS)
        now = time.monotonic()
        self._suspects = {mark: self._suspects.get(mark, now) for mark in marks}
        return self._suspects

    # --- The condition ---

    def _keep_condition(self, client: Client, node: NodeView) -> None:
        document = self._document
        assert document is not None
        events = [event for event in document.events if event.concerns(self._name)]
        patch = condition_patch(node, events)
        if patch is None:
            return
        change_condition(client, node, patch)
        if events:
            report(node, Reason.SCHEDULED, patch["status"]["conditions"][0]["message"])


def _settle_seconds(mark: str) -> float:
    return DRILL_SECONDS if mark.startswith(_DRILL) else SETTLE_SECONDS
