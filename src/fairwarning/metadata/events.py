"""The document and its approval: what scheduled events are about (M1 to M18)."""

import re

import msgspec

from fairwarning.core import limits
from fairwarning.core.commands import Approve
from fairwarning.core.document import visible
from fairwarning.core.errors import FairwarningError, NotFound, Refused
from fairwarning.metadata.answers import RequestRefused, render
from fairwarning.metadata.callers import Caller
from fairwarning.metadata.counts import RequestCounts
from fairwarning.metadata.validation import ParsedRequest
from fairwarning.service.fleet import Fleet

GONE = RequestRefused(404, "machine-gone", "Not found. This machine is gone or switched off.")


class EventsResource:
    """Answers for a caller that the connection has named."""

    def __init__(self, fleet: Fleet, counts: RequestCounts, active: list[Caller]) -> None:
        self._fleet = fleet
        self._counts = counts
        self._active = active

    def ready(self, caller: Caller, ask: ParsedRequest) -> bytes | None:
        """The document without waiting for anything; None if it must be fetched."""
        published = caller.published
        scope = published.scope
        if scope is None or not scope.incarnation:
            return None
        anew = caller.checked is not scope
        if anew:
            if not caller.runs():
                raise GONE
            if scope.ready_at > self._fleet.clock.now():
                return None
            if not self._fleet.faults:  # each request must meet its own
                caller.checked = scope
        self._count(caller)
        if self.knows(caller, ask):
            return render(304, close=ask.close, headers=f'ETag: "{scope.incarnation}"\r\n')
        caller.era = scope.ready_at
        if anew and scope.events:
            shown = visible(scope, ask.version)
            self._fleet.deliveries.show(scope, caller.name, shown)
            if len(shown) < len(scope.events):
                caller.checked = None  # at another version it may be told of more (M9)
        key = ask.key or (ask.version + " close" * ask.close)
        answer = published.answers.get(key)
        if answer is None:
            answer = published.answers[key] = render(
                200,
                published.body(ask.version),
                close=ask.close,
                headers=f'ETag: "{scope.incarnation}"\r\n',
            )
        return answer

    def _count(self, caller: Caller) -> None:
        if not caller.polls:
            self._active.append(caller)
        caller.polls += 1
        caller.allowed += 1  # the connection has counted it as a request already

    def knows(self, caller: Caller, ask: ParsedRequest) -> bool:
        """Whether the caller has this very document already (M11).

        The count begins anew each time the feature is switched on, so only what was sent since then
        counts: a machine that was silent for days must not take an old 1 for the new one.
        """
        scope = caller.published.scope
        if not ask.known or scope is None or caller.era != scope.ready_at:
            return False
        return str(scope.incarnation) in ask.known or "*" in ask.known

    def seen(self, caller: Caller) -> None:
        """Its scope was asked for just now (M14)."""
        if scope := caller.published.scope:
            self._fleet.polls.record(scope, self._fleet.clock.now())

    async def fetch(self, caller: Caller, ask: ParsedRequest) -> bytes:
        """The document of a scope that is off, or not yet ready: the request is held (M14)."""
        if caller.published.scope is not None and not caller.runs():
            raise GONE
        caller.published = await self._fleet.poll(caller.scope)
        answer = self.ready(caller, ask)
        if answer is None:  # switched off again in the same breath
            raise RequestRefused(
                503, "unavailable", "Not ready yet; ask again.", "Retry-After: 1\r\n"
            )
        return answer

    async def approve(self, caller: Caller, ask: ParsedRequest, body: bytes) -> bytes:
        """Approve each event named, or none (M12, M13); 200 only once that is durable."""
        if not caller.runs():
            raise GONE
        events = start_requests(body)
        command = Approve(scope=caller.scope, events=events, actor=caller.name)
        await self._fleet.submit(command)
        self._counts.approvals += 1
        return render(200, close=ask.close)


class _StartRequest(msgspec.Struct):
    EventId: str


class _Approval(msgspec.Struct):
    StartRequests: list[_StartRequest]


_GUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_decode = msgspec.json.Decoder(_Approval).decode


def start_requests(body: bytes) -> tuple[str, ...]:
    """The ids in an approval; any other part of it is ignored, as DocumentIncarnation is."""
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
    return RequestRefused(400, "approval", f"Bad request. {error}")


def refusal_of(error: FairwarningError) -> RequestRefused:
    """What a machine reads when the fleet refuses: never where the fleet keeps its data (IS3)."""
    if not isinstance(error, Refused):
        text = "The service cannot take this just now; ask again."
        return RequestRefused(503, "unavailable", text, "Retry-After: 1\r\n")
    if isinstance(error, NotFound):
        return RequestRefused(404, error.code, f"Not found. {error.message}")
    return RequestRefused(400, error.code, f"Bad request. {error.message}")
