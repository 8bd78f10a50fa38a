"""Injected faults as bytes on the wire (M21)."""

from fairwarning.metadata.answers import Refusal, render
from fairwarning.metadata.validation import EVENTS, ParsedRequest
from fairwarning.service.documents import PublishedScope
from fairwarning.service.faults import FaultKind

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
