"""The scheduled events resource: reading the document and approving events (M1 to M18)."""

import re

import msgspec

from fairwarning.core import limits
from fairwarning.core.commands import Approve
from fairwarning.core.document import visible
from fairwarning.core.errors import FairwarningError, NotFound, Refused
from fairwarning.metadata.answers import OK_LINE, Refusal, RequestCounts, RequestRefused, render
from fairwarning.metadata.callers import Caller
from fairwarning.metadata.validation import EVENTS, ParsedRequest
from fairwarning.service import approvals
from fairwarning.service.documents import PublishedScope
from fairwarning.service.faults import FaultKind
from fairwarning.service.fleet import Fleet

_NOT_READY = Refusal(503, "unavailable", "Not ready yet; try again.", "Retry-After: 1\r\n")
GONE = Refusal(404, "machine-gone", "Not found. This machine is deleted or stopped.")


class EventsResource:
    """Answers a caller that the connection has identified."""

    def __init__(self, fleet: Fleet, counts: RequestCounts, active: list[Caller]) -> None:
        self._fleet = fleet
        self._counts = counts
        self._active = active

    def answer_now(self, caller: Caller, parsed: ParsedRequest) -> bytes | None:
        """Return the document response if it needs no waiting; None if it must be fetched."""
        published = caller.published
        scope = published.scope
        if scope is None or not scope.incarnation:
            return None
        unchecked = caller.checked_scope is not scope
        if unchecked:
            if not caller.is_running():
                raise RequestRefused(GONE)
            if scope.ready_at > self._fleet.clock.now():
                return None
            if not self._fleet.faults:  # fault rules must see every request
                caller.checked_scope = scope
        self._count(caller)
        if self.is_not_modified(caller, parsed):
            return self._not_modified(published, parsed)
        caller.enabled_at = scope.ready_at
        if unchecked and scope.events:
            events = visible(scope, parsed.version)
            self._fleet.deliveries.show(scope, caller.name, events)
            if len(events) < len(scope.events):
                caller.checked_scope = None  # another api-version may show more events (M9)
        key = parsed.key or (parsed.version + " close" * parsed.close)
        rest = published.answers.get(key)
        if rest is None:
            response = render(
                200,
                published.body(parsed.version),
                close=parsed.close,
                headers=f'ETag: "{scope.incarnation}"\r\n',
            )
            rest = published.answers[key] = response.removeprefix(OK_LINE)
        return OK_LINE + rest

    def _not_modified(self, published: PublishedScope, parsed: ParsedRequest) -> bytes:
        key = "304 close" if parsed.close else "304"
        response = published.answers.get(key)
        if response is None:
            etag = f'ETag: "{published.incarnation}"\r\n'
            response = published.answers[key] = render(304, close=parsed.close, headers=etag)
        return response

    def _count(self, caller: Caller) -> None:
        if not caller.polls:
            self._active.append(caller)
        caller.polls += 1
        caller.allowed += 1  # the connection has charged this request already

    def is_not_modified(self, caller: Caller, parsed: ParsedRequest) -> bool:
        """Whether the caller already has the current document (M11).

        Incarnations restart each time the feature is enabled, so only documents sent since then
        count: a machine silent for days must not mistake an old incarnation 1 for the new one.
        """
        scope = caller.published.scope
        if not parsed.incarnations or scope is None or caller.enabled_at != scope.ready_at:
            return False
        return str(scope.incarnation) in parsed.incarnations or "*" in parsed.incarnations

    def record_poll(self, caller: Caller) -> None:
        """Record that the caller's scope was polled now (M14)."""
        if scope := caller.published.scope:
            self._fleet.polls.record(scope, self._fleet.clock.now())

    async def fetch(self, caller: Caller, parsed: ParsedRequest) -> bytes:
        """Return the document of a disabled scope once the poll has enabled it (M14)."""
        if caller.published.scope is not None and not caller.is_running():
            raise RequestRefused(GONE)
        caller.published = await self._fleet.poll(caller.scope)
        response = self.answer_now(caller, parsed)
        if response is None:  # disabled again in the meantime
            raise RequestRefused(_NOT_READY)
        return response

    async def approve(self, caller: Caller, parsed: ParsedRequest, body: bytes) -> bytes:
        """Approve all named events or none (M12, M13); answer 200 once that is durable."""
        if not caller.is_running():
            raise RequestRefused(GONE)
        events = start_requests(body)
        command = Approve(scope=caller.scope, events=events, actor=caller.name)
        await approvals.approve(self._fleet, command)
        self._counts.approvals += 1
        return render(200, close=parsed.close)


class _StartRequest(msgspec.Struct):
    EventId: str


class _Approval(msgspec.Struct):
    StartRequests: list[_StartRequest]


_GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_decode = msgspec.json.Decoder(_Approval).decode


def start_requests(body: bytes) -> tuple[str, ...]:
    """Return the event ids of an approval; ignore other members, such as DocumentIncarnation."""
    try:
        requests = _decode(body).StartRequests
    except msgspec.ValidationError as error:
        raise _bad(f"{error}; send {_EXAMPLE}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _bad(f"The body is not JSON; send {_EXAMPLE}") from error
    if not 0 < len(requests) <= limits.APPROVAL_EVENTS:
        raise _bad(f"StartRequests must name 1 to {limits.APPROVAL_EVENTS} events")
    for request in requests:
        if not _GUID.fullmatch(request.EventId):
            raise _bad(f"{request.EventId[:60]!r} is not an EventId of the document")
    return tuple(dict.fromkeys(request.EventId.upper() for request in requests))


_EXAMPLE = '{"StartRequests": [{"EventId": "..."}]}'


def _bad(error: str) -> RequestRefused:
    return RequestRefused(Refusal(400, "approval", f"Bad request. {error}"))


def refusal_of(error: FairwarningError) -> Refusal:
    """Convert an error of the fleet to a response that reveals nothing of its storage (IS3)."""
    if not isinstance(error, Refused):
        text = "The service cannot process this now; try again."
        return Refusal(503, "unavailable", text, "Retry-After: 1\r\n")
    if isinstance(error, NotFound):
        return Refusal(404, error.code, f"Not found. {error.message}")
    return Refusal(400, error.code, f"Bad request. {error.message}")


# --- Injected faults (M21) ---

_REFUSALS = {
    FaultKind.NOT_FOUND: Refusal(404, "fault", "Not found. This is an injected fault."),
    FaultKind.GONE: Refusal(410, "fault", "Gone for the moment. This is an injected fault."),
    FaultKind.TOO_MANY: Refusal(
        429, "fault", "Too many requests. This is an injected fault.", "Retry-After: 1\r\n"
    ),
    FaultKind.ERROR: Refusal(500, "fault", "Internal error. This is an injected fault."),
}


def faulty_response(kind: FaultKind, published: PublishedScope, parsed: ParsedRequest) -> bytes:
    """Return the bytes to send in place of the document; the connection closes after them."""
    if refusal := _REFUSALS.get(kind):
        return refusal.to_bytes(close=True)
    if kind is FaultKind.EMPTY:
        return render(200, close=True)
    body = published.body(parsed.version) if parsed.path == EVENTS else b"{}"
    if kind is FaultKind.CONTROL:
        return render(200, b"\x00\x07\x1b" + body + b"\x1f", close=True)
    assert kind is FaultKind.TRUNCATED
    complete = render(200, body, close=True)
    return complete[: len(complete) - len(body) // 2 - 1]
