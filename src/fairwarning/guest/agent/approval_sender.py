"""Sends approvals, each in a thread, since the endpoint may be unavailable for a while."""

from __future__ import annotations

import logging
from collections.abc import Callable

from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.guest.agent.event_state import ApprovalResult
from fairwarning.guest.client import ScheduledEvents
from fairwarning.guest.events import Event

log = logging.getLogger(__name__)


class ApprovalSender:
    """The approvals that are being sent, each with one request: `plan` decides about another."""

    def __init__(
        self,
        endpoint: str,
        start_thread: Callable[[str, Callable[[], None]], None],
        answered: Callable[[str, ApprovalResult], None],
    ) -> None:
        """`answered` gets the id of the event, and what became of the request."""
        self._endpoint = endpoint
        self._start_thread = start_thread
        self._answered = answered
        self._sending: set[str] = set()

    def send(self, event: Event) -> None:
        """Send an approval, unless one of this event is on its way."""
        if event.id.upper() not in self._sending:
            self._start_thread("approve", lambda: self._send(event))
            self._sending.add(event.id.upper())

    def answered(self, event: str) -> None:
        """Let the event be approved again; called by the thread that calls `send`."""
        self._sending.discard(event.upper())

    def _send(self, event: Event) -> None:
        result, failure = ApprovalResult.ACCEPTED, ""
        try:
            with ScheduledEvents(self._endpoint, patience=0) as client:
                client.approve(event, others=True)  # the plan has agreed with them
        except Refused as refused:  # the event is over, or the endpoint fails
            result, failure = ApprovalResult.REFUSED, f"was not approved: {refused.message}"
        except FairwarningError as error:
            result, failure = ApprovalResult.FAILED, f"is not approved yet: {error.message}"
        except Exception as error:  # noqa: BLE001  (whatever it is: only of this event)
            result, failure = ApprovalResult.FAILED, f"is not approved yet: {error!r}"
        if failure:
            log.warning("event %s %s; it is tried again while there is time", event.id, failure)
        self._answered(event.id, result)
