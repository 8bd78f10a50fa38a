"""What a fault on demand looks like on the wire (M21)."""

from fairwarning.metadata.answers import Refusal, render
from fairwarning.metadata.gate import EVENTS, Ask
from fairwarning.service.documents import Published
from fairwarning.service.faults import FaultKind

_REFUSALS = {
    FaultKind.NOT_FOUND: Refusal(404, "fault", "Not found. This fault was asked for."),
    FaultKind.GONE: Refusal(410, "fault", "Gone for the moment. This fault was asked for."),
    FaultKind.TOO_MANY: Refusal(
        429, "fault", "Too many requests. This fault was asked for.", "Retry-After: 1\r\n"
    ),
    FaultKind.ERROR: Refusal(500, "fault", "Internal error. This fault was asked for."),
}


def spoil(kind: FaultKind, published: Published, ask: Ask) -> bytes:
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
