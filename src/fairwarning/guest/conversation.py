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
from fairwarning.guest import session
from fairwarning.guest.endpoint import EndpointAddress
from fairwarning.guest.endpoint_clock import EndpointClock
from fairwarning.guest.events import Document, Event
from fairwarning.guest.session import HttpRequest, HttpResponse, PollState

PATIENCE_SECONDS = 70.0  # a restart of Azure's endpoint takes up to that long
_FOREVER = float("inf")
_MAX_PAUSE_SECONDS = 15.0
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
        self._known: Document | None = None  # the document that the caller has
        self._has_answered = False  # with any status
        self._is_reported = False  # that there is no document, or that it is refused

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
        self._known = self._poll_state.document
        return self._known

    def set_known(self, known: Document | None = None) -> None:
        """Let the next `wait` return as soon as the document differs from this one."""
        self._known = known

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
        while self._poll_state.document == self._known and self._now() < deadline:
            yield from self._poll(deadline, deadline)
        assert self._poll_state.document is not None
        self._known = self._poll_state.document
        return self._known

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
            return self._handle_response(request, reply)
        assert isinstance(reply, ConnectionLost)
        self._poll_state.failed(reply.reason, self._now())
        return False

    def _handle_response(self, request: HttpRequest, response: HttpResponse) -> bool:
        """Return whether the document was read; log once that it is refused."""
        if self._poll_state.handle_response(request, response, self._now()):
            self.read_at = self._now()
            self._is_reported = False
            return True
        is_known = self._poll_state.document is not None
        if is_known and self._poll_state.refused and not self._is_reported:
            self._is_reported = True
            text = "%s refuses to send the document (%s); the last one stays valid; retrying"
            log.warning(text, self._address, self._poll_state.last_failure)
        return False

    def _send(self, request: HttpRequest) -> Script[Reply]:
        sent_at = self._now()
        reply = yield request
        if isinstance(reply, HttpResponse):
            self._has_answered = True
            self._clock.observe(reply.headers.get("date", ""), sent_at, self._now())
        return reply

    def own_name(self) -> Script[str]:
        """Return the machine's own name; the first result is kept."""
        if not self._name:
            is_first = not self._has_answered
            seconds = session.FIRST_TIMEOUT_SECONDS if is_first else session.TIMEOUT_SECONDS
            request = session.name_request(seconds)
            response = yield from self._send_with_retries(request, _is_name, consequence=_NO_NAME)
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
            yield from self._send_with_retries(session.approval_request(ids, self._version))

    def _check_machines(self, events: Iterable[Event | str]) -> Script[None]:
        document = self._poll_state.document or Document()
        by_id = {event.id.upper(): event for event in document.events}
        for event in events:
            known = event if isinstance(event, Event) else by_id.get(event.upper())
            if known is None or not known.resources:
                continue  # the endpoint decides
            name = yield from self.own_name()
            if not known.concerns_only(name):
                raise Refused(
                    "OtherMachines",
                    f"event {known.id} names {', '.join(known.resources)}, and this is {name}: an"
                    " approval starts it for all of them. Agree with them first, then pass"
                    " others=True to approve; groups of the agent do that",
                )

    def _send_with_retries(
        self,
        request: HttpRequest,
        is_valid: Callable[[HttpResponse], bool] = lambda _: True,
        *,
        consequence: str = "",
    ) -> Script[HttpResponse]:
        """Send a request until it succeeds, for as long as `patience` allows.

        `consequence` says what follows if the endpoint responds, but never as needed.
        """
        deadline, pause = self._now() + self._patience, 1.0
        while True:
            reply = yield from self._send(request)
            if isinstance(reply, HttpResponse):
                if reply.status == HTTPStatus.OK and is_valid(reply):
                    return reply
                failure = f"the response was {reply.status} {session.error_text(reply)}".strip()
                failure += consequence
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
    name = response.body.decode("utf-8", "replace").strip()
    return bool(name) and name.isprintable() and "\ufffd" not in name
