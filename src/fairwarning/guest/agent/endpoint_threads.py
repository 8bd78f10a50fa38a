"""Threads of the agent that talk to the endpoint: one reads its documents, others approve.

An approval has its own thread, since the endpoint may be unavailable for a while.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from fairwarning.core.errors import FairwarningError, Refused, Unavailable
from fairwarning.guest.agent import agent_metrics
from fairwarning.guest.agent.config import AgentConfig
from fairwarning.guest.agent.event_state import ApprovalResult
from fairwarning.guest.client import ScheduledEvents
from fairwarning.guest.discover import discover
from fairwarning.guest.events import Document, Event, SkippedEvent, normalize_name

log = logging.getLogger(__name__)

READ_SECONDS = 30.0  # the longest wait for a change
FIRST_CONTACT_SECONDS = 300.0  # more than Azure's endpoint takes; then the agent ends
RETRY_SECONDS = 1.0


@dataclass(frozen=True)
class EndpointContact:
    """The endpoint answers."""

    endpoint: str
    reader: ScheduledEvents
    name: str  # of this machine


class DocumentReader:
    """Passes on the first contact, and then every document with the time of its reading."""

    def __init__(
        self,
        config: AgentConfig,
        stopped: threading.Event,
        contacted: Callable[[EndpointContact], None],
        received: Callable[[Document, float], None],
    ) -> None:
        self.read_at = time.monotonic()  # of the last document; at first, of the start
        self._config = config
        self._stopped = stopped
        self._contacted = contacted
        self._received = received
        self._failed_reads = 0
        self._skipped: tuple[SkippedEvent, ...] = ()
        self._give_up_at = time.monotonic() + FIRST_CONTACT_SECONDS

    def run(self) -> None:
        """Read until the agent stops.

        Raise the last error if there is no document within `FIRST_CONTACT_SECONDS`; a response that
        takes as long as Azure's first one is waited for.
        """
        contact = self._connect()
        if contact is not None:
            with contact.reader as reader:
                self._contacted(contact)
                self._read_documents(reader)

    def _connect(self) -> EndpointContact | None:
        """Return once the endpoint answers, which may start after the agent."""
        while not self._stopped.is_set():
            try:
                endpoint = discover(self._config.endpoint or None)
                reader = ScheduledEvents(endpoint, name=self._config.name, patience=RETRY_SECONDS)
                return EndpointContact(endpoint, reader, reader.me())
            except Unavailable as error:
                if self._stopped.is_set():
                    break
                if time.monotonic() >= self._give_up_at:
                    raise
                log.warning("%s; retrying", error.message)
                self._stopped.wait(RETRY_SECONDS)
        return None

    def _read_documents(self, reader: ScheduledEvents) -> None:
        while not self._stopped.is_set():
            is_first = reader.read_at < 0
            try:
                document = reader.wait(None if is_first else READ_SECONDS)
            except FairwarningError as error:  # does not mean "no events" (IG5)
                if is_first and time.monotonic() >= self._give_up_at:
                    raise
                log.warning("%s", error.message)
                self._count(reader)
                self._stopped.wait(RETRY_SECONDS)
                continue
            self._count(reader, document)
            self._received(document, reader.read_at)

    def _count(self, reader: ScheduledEvents, document: Document | None = None) -> None:
        """Count what was read, or not, since the last time."""
        for _ in range(self._failed_reads, reader.failed_reads):
            agent_metrics.READINGS.add(agent_metrics.FAILED)
        self._failed_reads = reader.failed_reads
        if document is None or reader.read_at <= self.read_at:
            return
        self.read_at = reader.read_at
        agent_metrics.READINGS.add(agent_metrics.OK)
        agent_metrics.LAST_READING.set(time.time())
        for _ in set(document.skipped) - set(self._skipped):
            agent_metrics.MALFORMED_EVENTS.add()
        self._skipped = document.skipped


def warn_about_name(endpoint: str, name: str) -> None:
    """Warn if the endpoint knows this machine by another name than the configuration."""
    try:
        with ScheduledEvents(endpoint) as client:
            known = client.me()
    except FairwarningError:
        return  # `name` may be set because the endpoint cannot tell
    if normalize_name(known) != normalize_name(name):
        text = (
            "the configuration has name = %r, but the endpoint calls this machine %s, whose events"
            " are ignored: remove `name`, or set it to that"
        )
        log.warning(text, name, known)


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
