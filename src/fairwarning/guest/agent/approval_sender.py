"""Sends approvals, each in a thread, since the endpoint may be unavailable for a while."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from fairwarning.core.errors import Refused
from fairwarning.guest.agent import agent_metrics
from fairwarning.guest.client import ScheduledEvents
from fairwarning.guest.events import Event

log = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0


class ApprovalSender:
    """The approvals that are being sent."""

    def __init__(
        self,
        endpoint: str,
        stopped: threading.Event,
        start_thread: Callable[[str, Callable[[], None]], None],
        answered: Callable[[str, bool], None],
    ) -> None:
        """`answered` gets the id of the event, and whether the approval was refused."""
        self._endpoint = endpoint
        self._stopped = stopped
        self._start_thread = start_thread
        self._answered = answered
        self._sending: set[str] = set()

    def send(self, event: Event) -> None:
        """Send an approval until it is answered, unless that is already being done."""
        key = event.id.upper()
        if key not in self._sending:
            self._sending.add(key)
            self._start_thread("approve", lambda: self._send(event))

    def forget(self, event: str) -> None:
        """Send no approval of this event any more; its thread ends."""
        self._sending.discard(event.upper())

    def _send(self, event: Event) -> None:
        with ScheduledEvents(self._endpoint) as client:
            while event.id.upper() in self._sending and not self._stopped.is_set():
                try:
                    client.approve(event, others=True)  # the plan has agreed with them
                except Refused as refused:  # the event is over, or the endpoint fails
                    log.warning("event %s was not approved: %s", event.id, refused.message)
                    self._answered(event.id, True)  # noqa: FBT003  (as `answered` says)
                    return
                except Exception as error:  # noqa: BLE001  (whatever it is: only of this event)
                    text = getattr(error, "message", repr(error))
                    log.warning("approving event %s: %s; retrying", event.id, text)
                    agent_metrics.APPROVALS.add(agent_metrics.FAILED)
                    self._stopped.wait(_RETRY_SECONDS)
                    continue
                self._answered(event.id, False)  # noqa: FBT003  (as `answered` says)
                return
