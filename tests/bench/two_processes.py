"""A client of two processes: it makes a change through one and reads it through both."""

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.bench import fleets
from tests.bench.clients import TAG, Client, connect, poll
from tests.bench.measure import times_ms

ACKNOWLEDGED = "sent → acknowledged"
SAME = "sent → seen through the same process"
ANOTHER = "sent → seen through another process"

_MACHINE = fleets.machine_name("scope-0000", 0)
_EVENT = re.compile(rb'"EventId":"([0-9A-F-]+)"')
_WAIT = "&wait=30"
_UNMEASURED = 4  # changes; an even number, so that no event is left


class Side:
    """One process: its console, and a machine that polls it."""

    def __init__(self, console: Client, machine: Client, place: Mapping[str, Any]) -> None:
        self._console = console
        self._machine = machine
        self._place = place
        self.tag = ""

    async def look(self, *, wait: bool = True) -> tuple[float, bytes]:
        """Return the time of the next change and the new document."""
        header = f"If-None-Match: {self.tag}\r\n" if wait else ""
        answer = await self._machine.ask(poll(self._place["address"], _WAIT * wait, header))
        match = TAG.search(answer)
        assert match
        self.tag = match[1].decode()
        return self._machine.answered, answer

    async def post(self, path: str, status: int) -> float:
        """Send a command; return when it was acknowledged."""
        request = (
            f"POST {path} HTTP/1.1\r\nHost: {self._place['host']}\r\n"
            f"Authorization: Bearer {self._place['token']}\r\n"
            "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        )
        await self._console.ask(request.encode("ascii"), status)
        return self._console.answered

    def close(self) -> None:
        """Close the connections."""
        self._console.transport.close()
        self._machine.transport.close()


class Pair:
    """Two processes; changes go through each in turn and are read through both."""

    def __init__(self, sides: Sequence[Side]) -> None:
        self._sides = sides
        self._event = ""  # the announced event

    async def change(self) -> dict[str, float]:
        """Restart the machine, or cancel that through the other process; return the delays."""
        writer, reader = self._sides
        self._sides = reader, writer
        seen = [asyncio.create_task(side.look()) for side in (writer, reader)]
        await asyncio.sleep(0)  # both poll
        sent = time.perf_counter()
        if self._event:
            acknowledged = await writer.post(f"/api/events/{self._event}/cancel", 200)
        else:
            acknowledged = await writer.post(f"/api/machines/{_MACHINE}/restart", 202)
        (here, document), (there, _) = await asyncio.gather(*seen)
        match = _EVENT.search(document)
        self._event = match[1].decode() if match else ""
        return {ACKNOWLEDGED: acknowledged - sent, SAME: here - sent, ANOTHER: there - sent}


async def seen_through_both(places: Sequence[Mapping[str, Any]], changes: int) -> dict[str, Any]:
    """Make this many changes, after some that warm both processes up."""
    sides = [await _side(place) for place in places]
    try:
        for side in sides:
            await side.look(wait=False)
        pair = Pair(sides)
        for _ in range(_UNMEASURED):
            await pair.change()
        laps = [await pair.change() for _ in range(changes)]
    finally:
        for side in sides:
            side.close()
    return {name: times_ms([lap[name] for lap in laps]) for name in laps[0]}


async def _side(place: Mapping[str, Any]) -> Side:
    host, _, port = str(place["host"]).rpartition(":")
    console = await connect(host, int(port))
    machine = await connect(place["address"], place["port"])
    return Side(console, machine, place)
