"""Server-sent events: journal lines as they are written, and changes of the clock."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager

import msgspec

from fairwarning.console.api import Api, views
from fairwarning.service.clock import VirtualClock
from fairwarning.service.fleet import Fleet
from fairwarning.service.history.events import JournalEntry
from fairwarning.service.tokens import TokenClaims

BRIEF_SECONDS = 1.0  # of real time, between two messages of a brief stream

_LOOK_SECONDS = 0.1  # between two looks whether a pausing stream has ended
_PAGE_SIZE = 500
_KEEPALIVE_SECONDS = 15.0  # of real time
_DRIFT_SECONDS = 0.5  # a larger difference means that an operator moved the virtual clock

_json = msgspec.json.Encoder().encode


async def stream(
    api: Api,
    after: int | None,
    token: TokenClaims,
    *,
    brief: bool = False,
) -> AsyncIterator[bytes]:
    """Yield every line after a line number, or every new line without one.

    A brief stream only says that there are new lines, at most once in `BRIEF_SECONDS`.

    A stream ends with the service, and with the token or session of its client: at its expiry, or
    when it is revoked. A client that reads slowly gets no line after that either.
    """
    fleet, issued = api.fleet, api.parts.tokens
    tokens = issued.verifier

    def ended() -> bool:
        return api.parts.closing.begun or not tokens.is_valid(token)

    with _woken_by(fleet.publisher.readers, issued.listeners) as woken:
        end = await _newest(fleet)
        after = end if after is None else min(after, end)  # the number may be of an earlier journal
        clock = _ClockWatch(fleet)
        yield f"retry: 1000\nid: {after}\n\n".encode()
        while not ended():
            woken.clear()
            messages, after = await (_brief if brief else _lines)(fleet, after)
            for message in messages:
                if ended():
                    return
                yield message
            if clock.moved():
                yield b"event: clock\ndata: %b\n\n" % _json(api.clock())
            if brief and messages:
                await _pause(ended)
            elif len(messages) < _PAGE_SIZE:
                seconds = min(_KEEPALIVE_SECONDS, token.expires_at - tokens.now())
                if not await _wait(woken, seconds):
                    yield b": nothing new\n\n"


@contextmanager
def _woken_by(*notifiers: list[Callable[[], None]]) -> Iterator[asyncio.Event]:
    """Set an event whenever one of these lists of callbacks is called."""
    woken = asyncio.Event()
    for callbacks in notifiers:
        callbacks.append(woken.set)
    try:
        yield woken
    finally:
        for callbacks in notifiers:
            callbacks.remove(woken.set)


async def _lines(fleet: Fleet, after: int) -> tuple[list[bytes], int]:
    """Return a message for each new line, and the number of the last one."""
    async with fleet.reader.share.follow():
        entries = await fleet.reader.journal(after=after, limit=_PAGE_SIZE)
        messages = await fleet.reader.share.map(_message, entries)
    return messages, entries[-1].number if entries else after


def _message(entry: JournalEntry) -> bytes:
    return b"id: %d\nevent: line\ndata: %b\n\n" % (entry.number, _json(views.line_info(entry)))


async def _brief(fleet: Fleet, after: int) -> tuple[list[bytes], int]:
    """Return one message if there are new lines, and the number of the last one."""
    newest = await _newest(fleet)
    return [b"id: %d\nevent: changed\ndata: {}\n\n" % newest] if newest > after else [], newest


async def _pause(ended: Callable[[], bool]) -> None:
    for _ in range(round(BRIEF_SECONDS / _LOOK_SECONDS)):
        if ended():
            return
        await asyncio.sleep(_LOOK_SECONDS)


async def _wait(woken: asyncio.Event, seconds: float) -> bool:
    """Wait for a change; return whether there was one in this time."""
    try:
        await asyncio.wait_for(woken.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def _newest(fleet: Fleet) -> int:
    """Return the number of the newest line."""
    async with fleet.reader.share.follow():
        newest = await fleet.reader.latest_lines(1)
    return newest[0].number if newest else 0


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
