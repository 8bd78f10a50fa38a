"""What happens, as it happens: server-sent events over the journal."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import msgspec

from fairwarning.console.api import Api, views
from fairwarning.service.clock import VirtualClock
from fairwarning.service.fleet import Fleet

_PAGE = 500
_QUIET_SECONDS = 15.0  # of real time; then a sign of life
_DRIFT_SECONDS = 0.5  # virtual time that differs by more was moved by hand

_json = msgspec.json.Encoder().encode


async def stream(api: Api, after: int | None, closing: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Every line past a number, for as long as somebody listens; without one, from now on."""
    fleet = api.fleet
    woken = asyncio.Event()
    fleet.readers.append(woken.set)
    try:
        newest = await fleet.reader.latest_lines(1)
        end = newest[0].number if newest else 0
        after = end if after is None else min(after, end)  # of a journal that is no more
        clock = _Clock(fleet)
        yield f"retry: 1000\nid: {after}\n\n".encode()
        while not closing():
            woken.clear()
            entries = await fleet.reader.journal(after=after, limit=_PAGE)
            for entry in entries:
                after = entry.number
                yield b"id: %d\nevent: line\ndata: %b\n\n" % (after, _json(views.line(entry)))
            if clock.moved():
                yield b"event: clock\ndata: %b\n\n" % _json(api.clock())
            if len(entries) < _PAGE:
                try:
                    await asyncio.wait_for(woken.wait(), _QUIET_SECONDS)
                except TimeoutError:
                    yield b": nothing new\n\n"
    finally:
        fleet.readers.remove(woken.set)


class _Clock:
    """Knows whether somebody moved the fleet's clock since it was last asked."""

    def __init__(self, fleet: Fleet) -> None:
        self._clock = fleet.clock
        self._seen = self._look()

    def _look(self) -> tuple[float, float, float]:
        rate = self._clock.rate if isinstance(self._clock, VirtualClock) else 1.0
        return rate, self._clock.now(), time.monotonic()

    def moved(self) -> bool:
        if not isinstance(self._clock, VirtualClock):
            return False
        rate, now, real = self._seen
        self._seen = new = self._look()
        expected = now + (new[2] - real) * rate
        return new[0] != rate or abs(new[1] - expected) > _DRIFT_SECONDS
