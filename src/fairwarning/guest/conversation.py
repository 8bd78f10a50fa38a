"""The client's protocol as generators, without I/O.

A generator yields requests to send and pauses to make, and receives the responses. Both clients
share this logic, and tests need no network.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import TypeVar, Union

from fairwarning.core.errors import Refused, Unavailable
from fairwarning.core.times import spoken
from fairwarning.guest import session
from fairwarning.guest.endpoint import EndpointAddress
from fairwarning.guest.endpoint_time import EndpointClock
from fairwarning.guest.events import Document, Event
from fairwarning.guest.session import HttpRequest, HttpResponse, PollState

PATIENCE_SECONDS = 70.0  # a restart of Azure's endpoint takes up to that long
_NAME_BYTES = 1024
_FOREVER = float("inf")
_LONGEST_INTERVAL_SECONDS = 24 * 3600
_MAX_PAUSE_SECONDS = 15.0
_NAME_SECONDS = 5.0  # for the machine's name before an approval, as a notice may be of 30 s
_GRACE_SECONDS = 2.0  # for a response that is on its way at the deadline

_NO_NAME = (
    ". Without instance metadata (GET /metadata/instance/compute/name) this machine's name is"
    " unknown: events can be read and approved with `ScheduledEvents(name=...)`, and an agent needs"
    " the name to recognise its own; set `name` in its configuration"
)

T = TypeVar("T")

log = logging.getLogger("fairwarning.guest")


@dataclass(frozen=True)
class Wait:
    """A pause before the next step."""

    seconds: float


@dataclass(frozen=True)
class ConnectionLost:
    """A request without a complete response."""

    reason: str


Step = Union[HttpRequest, Wait]
Reply = Union[HttpResponse, ConnectionLost, None]
Script = Generator[Step, Reply, T]
"""Yields steps, receives a reply for each (None after a pause), and returns the result."""


class Conversation:
    """The requests of a client to one endpoint."""

    def __init__(
        self,
        now: Callable[[], float],
        address: EndpointAddress,
        *,
        name: str = "",
        version: str = session.VERSION,
        every: float = session.INTERVAL_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        if not 0 <= every <= _LONGEST_INTERVAL_SECONDS:  # NaN is not, either
            allowed = f"a number of seconds from 0 to {_LONGEST_INTERVAL_SECONDS}"
            raise ValueError(f"every: must be {allowed}, not {every}")
        self._now = now
        self._address = address
        self._poll_state = PollState(version=version, every=every)
        self._version = version
        self._patience = patience
        self._every = every
        self.read_at = float("-inf")
        """The time of the last successful read, by the clock of `now`."""
        self._clock = EndpointClock()
        self._name = name
        self.known: Document | None = None
        """The document that the caller has: `wait` returns as soon as there is another one."""
        self._has_answered = False  # with any status
        self._is_reported = False  # that there is no document
        self._skipped: tuple[object, ...] = ()  # the last report of malformed events

    @property
    def failed_reads(self) -> int:
        """How many requests for the document have failed so far."""
        return self._poll_state.all_failures

    def endpoint_time(self) -> float | None:
        """Return the endpoint's time, in epoch seconds; None before its first response."""
        return self._clock.time(self._now())

    def document(self) -> Script[Document]:
        """Return the current document; raise `Unavailable` if there is none within `patience`."""
        deadline = self._now() + self._patience
        is_read = yield from self._poll(max(deadline, self._now() + self._every))
        while not is_read:
            if self._now() >= deadline:
                raise self._no_document()
            is_read = yield from self._poll(deadline)
        assert self._poll_state.document is not None
        self.known = self._poll_state.document
        return self.known

    def wait(self, timeout: float | None) -> Script[Document]:
        """Return the document when it has changed since last time, or when the timeout is over.

        Failures of the endpoint do not end the wait: the last document stays valid (IG5). Only
        before the first document it raises `Unavailable` after `patience`.
        """
        deadline = _FOREVER if timeout is None else self._now() + timeout
        if self._poll_state.document is None:
            yield from self._make_contact(deadline)
        else:
            yield from self._poll(deadline, deadline)
        while self._poll_state.document == self.known and self._now() < deadline:
            yield from self._poll(deadline, deadline)
        assert self._poll_state.document is not None
        self.known = self._poll_state.document
        return self.known

    def _make_contact(self, deadline: float) -> Script[None]:
        """Poll until there is a first document; log that it does not come, then give up.

        A request that was sent in time may take longer than `patience`, as on Azure.
        """
        give_up_at = min(self._now() + self._patience, deadline)
        if (yield from self._poll(deadline, deadline)):
            return
        left = give_up_at - self._now()
        if left > 0 and not self._is_reported:
            self._is_reported = True
            text = "no document from %s (%s); trying for %.0f s more; %s"
            failure, next_step = self._poll_state.last_failure, self._address.next_step()
            log.warning(text, self._address, failure, left, next_step)
        while self._now() < give_up_at:
            if (yield from self._poll(give_up_at, deadline)):
                return
        raise self._no_document()

    def _no_document(self) -> Unavailable:
        failure, next_step = self._poll_state.last_failure, self._address.next_step()
        text = f"no document from {self._address}; last time {failure}; {next_step}"
        return Unavailable("NoDocument", text)

    def _poll(self, send_by: float, answer_by: float | None = None) -> Script[bool]:
        """Poll once, as soon as allowed; return whether the document was read.

        With `answer_by` the request is held until then if the endpoint can, and ends soon after it.
        """
        pause = self._poll_state.pause(self._now())
        left = max(0.0, send_by - self._now())
        if pause > 0:
            yield Wait(min(pause, left))
            if pause > left:
                return False
        left = 0.0 if answer_by is None else max(0.0, answer_by - self._now())
        request = self._poll_state.request(self._now(), left)
        if answer_by is not None:
            request = replace(request, seconds=min(request.seconds, left + _GRACE_SECONDS))
        reply = yield from self._send(request)
        if isinstance(reply, HttpResponse):
            is_read = self._poll_state.handle_response(request, reply, self._now())
        else:
            assert isinstance(reply, ConnectionLost)
            is_read = False
            self._poll_state.failed(reply.reason, self._now())
        if is_read:
            self._report_document()
            self.read_at = self._now()
        else:
            self._report_failure()
        return is_read

    def _report_failure(self) -> None:
        """Log the beginning of an outage: the second failure, or a refusal, which seldom ends."""
        state = self._poll_state
        is_outage = state.refused or state.failures > 1
        if state.document is not None and is_outage and not self._is_reported:
            self._is_reported = True
            text = "%s sends no document (%s); the last one stays valid; retrying"
            log.warning(text, self._address, state.last_failure)

    def _report_document(self) -> None:
        """Log the end of an outage, and once per incarnation the events that are skipped."""
        if self._is_reported and self.read_at >= 0:
            duration = spoken(self._now() - self.read_at)
            log.info("%s sends documents again, after %s without one", self._address, duration)
        self._is_reported = False
        document = self._poll_state.document
        if document is None or (document.incarnation, document.skipped) == self._skipped:
            return
        self._skipped = document.incarnation, document.skipped
        for skipped in document.skipped:
            text = "%s: a malformed event of document %d is skipped (id: %s): %s"
            shown = skipped.id or "unknown"
            log.warning(text, self._address, document.incarnation, shown, skipped.reason)

    def _send(self, request: HttpRequest) -> Script[Reply]:
        sent_at = self._now()
        reply = yield request
        if isinstance(reply, HttpResponse):
            self._has_answered = True
            self._clock.observe(reply.headers.get("date", ""), sent_at, self._now())
        return reply

    def own_name(self) -> Script[str]:
        """Return the machine's own name; the first result is kept."""
        is_first = not self._has_answered
        seconds = session.FIRST_TIMEOUT_SECONDS if is_first else session.TIMEOUT_SECONDS
        return (yield from self._read_name(seconds, self._patience))

    def _read_name(self, timeout: float, patience: float) -> Script[str]:
        """Return the name; raise `Unavailable` at once if the endpoint has no instance metadata."""
        if not self._name:
            request = session.name_request(timeout)
            response = yield from self._send_with_retries(
                request, patience, _is_name, consequence=_NO_NAME
            )
            self._name = response.body.decode().strip()
        return self._name

    def approve(self, events: Sequence[Event | str], *, others: bool = False) -> Script[None]:
        """Approve events; an event that is approved already is not an error.

        Raise `Refused` for an event that names other machines, unless `others` is true.
        """
        if not others:
            yield from self._check_machines(events)
        ids = [event.id if isinstance(event, Event) else event for event in events]
        if ids:
            request = session.approval_request(ids, self._version)
            yield from self._send_with_retries(request, self._patience)

    def _check_machines(self, events: Iterable[Event | str]) -> Script[None]:
        for event in events:
            known = event if isinstance(event, Event) else (yield from self._find(event))
            if known is None or not known.resources:
                continue  # it is over: the endpoint decides
            name = yield from self._read_name(_NAME_SECONDS, min(_NAME_SECONDS, self._patience))
            if not known.concerns_only(name):
                raise Refused(
                    "OtherMachines",
                    f"event {known.id} names {', '.join(known.resources)}, and this is {name}: an"
                    " approval starts it for all of them. Agree with them first, then pass"
                    " others=True to approve; groups of the agent do that",
                )

    def _find(self, event: str) -> Script[Event | None]:
        """Return an event by its id; read the document if the last one does not list it."""
        document = self._poll_state.document
        if document is None or document.find(event) is None:
            known = self.known
            document = yield from self.document()
            self.known = known  # the caller has not seen this one
        skipped = {entry.id.upper() for entry in document.skipped}
        if document.assumed or event.upper() in skipped:
            raise Refused(
                "UnknownEvent",
                f"the endpoint does not say which machines event {event} names: an approval may"
                " start it for other machines. To approve all the same, pass others=True",
            )
        return document.find(event)

    def _send_with_retries(
        self,
        request: HttpRequest,
        patience: float,
        is_valid: Callable[[HttpResponse], bool] = lambda _: True,
        *,
        consequence: str = "",
    ) -> Script[HttpResponse]:
        """Send a request until it succeeds, for as long as `patience` allows.

        `consequence` says what follows if the endpoint responds, but never as needed; then 404 is
        final.
        """
        deadline, pause = self._now() + patience, 1.0
        while True:
            reply = yield from self._send(request)
            if isinstance(reply, HttpResponse):
                if reply.status == HTTPStatus.OK and is_valid(reply):
                    return reply
                failure = f"the response was {reply.status} {session.error_text(reply)}".strip()
                failure += consequence
                if consequence and reply.status == HTTPStatus.NOT_FOUND:
                    raise Unavailable("NoName", f"{self._address} has no name; {failure}")
                if reply.status != HTTPStatus.OK and not session.is_transient(reply):
                    raise Refused("Refused", f"the endpoint refused the request; {failure}")
                pause = max(pause, session.retry_after(reply))
            else:
                assert isinstance(reply, ConnectionLost)
                failure = f"there was no response ({reply.reason}); {self._address.next_step()}"
            if self._now() + pause > deadline:
                raise Unavailable("NoAnswer", f"{self._address} failed; last time {failure}")
            yield Wait(pause)
            pause = min(pause * 2, _MAX_PAUSE_SECONDS)


def _is_name(response: HttpResponse) -> bool:
    """Whether a response is a valid machine name."""
    name = response.body[:_NAME_BYTES].decode("utf-8", "replace").strip()
    is_short = len(response.body) <= _NAME_BYTES
    return bool(name) and is_short and name.isprintable() and "\ufffd" not in name
