"""What a fault on demand looks like on the wire (M21)."""

from fairwarning.metadata.answers import RequestRefused, render
from fairwarning.metadata.validation import EVENTS, ParsedRequest
from fairwarning.service.documents import PublishedScope
from fairwarning.service.faults import FaultKind

_REFUSALS = {
    FaultKind.NOT_FOUND: RequestRefused(404, "fault", "Not found. This fault was asked for."),
    FaultKind.GONE: RequestRefused(410, "fault", "Gone for the moment. This fault was asked for."),
    FaultKind.TOO_MANY: RequestRefused(
        429, "fault", "Too many requests. This fault was asked for.", "Retry-After: 1\r\n"
    ),
    FaultKind.ERROR: RequestRefused(500, "fault", "Internal error. This fault was asked for."),
}


def faulty_response(kind: FaultKind, published: PublishedScope, ask: ParsedRequest) -> bytes:
    """What is sent instead of the document; the connection is closed after it."""
    if refusal := _REFUSALS.get(kind):
        return refusal.answer(close=True)
    if kind is FaultKind.EMPTY:
        return render(200, close=True)
    body = published.body(ask.version) if ask.path == EVENTS else b"{}"
    if kind is FaultKind.CONTROL:
        return render(200, b"\x00\x07\x1b" + body + b"\x1f", close=True)
    assert kind is FaultKind.TRUNCATED
    whole = render(200, body, close=True)
    return whole[: len(whole) - len(body) // 2 - 1]
