"""Server-sent events: journal lines as they are written, and changes of the clock."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import msgspec

from fairwarning.console.api import Api, views
from fairwarning.service.clock import VirtualClock
from fairwarning.service.fleet import Fleet
from fairwarning.service.tokens import TokenClaims

_PAGE_SIZE = 500
_KEEPALIVE_SECONDS = 15.0  # of real time
_DRIFT_SECONDS = 0.5  # a larger difference means that an operator moved the virtual clock

_json = msgspec.json.Encoder().encode


async def stream(
    api: Api, after: int | None, token: TokenClaims, closing: Callable[[], bool]
) -> AsyncIterator[bytes]:
    """Yield every line after a line number, or every new line without one.

    A stream ends with the service, and with the token or session of its client: at its expiry, or
    when it is revoked. A client that reads slowly gets no line after that either.
    """
    fleet, tokens = api.fleet, api.issued_tokens.verifier

    def ended() -> bool:
        return closing() or not tokens.is_valid(token)

    woken = asyncio.Event()
    notifiers = (fleet.readers, api.issued_tokens.listeners)
    for callbacks in notifiers:
        callbacks.append(woken.set)
    try:
        newest = await fleet.reader.latest_lines(1)
        end = newest[0].number if newest else 0
        after = end if after is None else min(after, end)  # the number may be of an earlier journal
        clock = _ClockWatch(fleet)
        yield f"retry: 1000\nid: {after}\n\n".encode()
        while not ended():
            woken.clear()
            entries = await fleet.reader.journal(after=after, limit=_PAGE_SIZE)
            for entry in entries:
                if ended():
                    return
                after = entry.number
                yield b"id: %d\nevent: line\ndata: %b\n\n" % (after, _json(views.line_info(entry)))
            if clock.moved():
                yield b"event: clock\ndata: %b\n\n" % _json(api.clock())
            if len(entries) < _PAGE_SIZE:
                seconds = min(_KEEPALIVE_SECONDS, token.expires_at - tokens.now())
                try:
                    await asyncio.wait_for(woken.wait(), seconds)
                except TimeoutError:
                    yield b": nothing new\n\n"
    finally:
        for callbacks in notifiers:
            callbacks.remove(woken.set)


class _ClockWatch:
    """Detects that an operator moved the fleet's clock."""

    def __init__(self, fleet: Fleet) -> None:
        self._clock = fleet.clock
        self._last = self._sample()

    def _sample(self) -> tuple[float, float, float]:
        rate = self._clock.rate if isinstance(self._clock, VirtualClock) else 1.0
        return rate, self._clock.now(), time.monotonic()

    def moved(self) -> bool:
        """Return whether the clock was moved since the last call."""
        if not isinstance(self._clock, VirtualClock):
            return False
        rate, now, real = self._last
        self._last = new_rate, new_now, new_real = self._sample()
        expected = now + (new_real - real) * rate
        return new_rate != rate or abs(new_now - expected) > _DRIFT_SECONDS
