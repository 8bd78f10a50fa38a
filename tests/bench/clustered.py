"""Two processes on one PostgreSQL: the delay until a change through one is seen by the other."""

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from fairwarning.server.ready import read_ready
from tests.bench import contenders, raw
from tests.bench.clients import TAG, Client, addresses, connect, poll
from tests.bench.contenders import Contender, running
from tests.bench.context import BenchmarkContext, medians
from tests.bench.figures import Figures, Result, Target, described
from tests.bench.fleets import SMALL_FLEET, machine_name
from tests.bench.measure import times_ms
from tests.bench.pgcommands import FILL, ROWS, TABLE, UPDATE
from tests.bench.processes import CORES
from tests.bench.storage import Databases, on_postgresql

Rows = dict[str, dict[str, float]]

ACKNOWLEDGED = "sent → acknowledged"
SAME = "sent → seen through the same process"
ANOTHER = "sent → seen through another process"

_PEER = "PostgreSQL alone: a row is written → a listener has heard"
_AT_MOST = 50.0
_MACHINE = machine_name("scope-0000", 0)
_EVENT = re.compile(rb'"EventId":"([0-9A-F-]+)"')
_WAIT = "&wait=30"
_UNMEASURED = 4  # changes; an even number, so that no event is left


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    return on_postgresql(context, described("cluster-visible", machines=SMALL_FLEET), _run)


def _run(context: BenchmarkContext, storage: Databases) -> Figures:
    url, changes = storage.copy(SMALL_FLEET, "seen"), context.effort.changes
    with ExitStack() as stack:
        words = [storage.words(url, f"seen-{at}") for at in range(2)]
        places = [_place(stack.enter_context(_up(context, options)), options) for options in words]

        def ours() -> Rows:
            rows: Rows = context.probe(seen_through_both, places=places, changes=changes)
            return rows

        def peer() -> Rows:
            return {_PEER: context.probe(notified, url=storage.server.url(), changes=changes)}

        taken = context.in_turn({"ours": ours, "peer": peer})
    rows = {
        name: medians([sample[name] for sample in samples])
        for samples in taken.values()
        for name in samples[0]
    }
    value = rows[ANOTHER]["p99 ms"]
    target = Target(f"{ANOTHER}: p99 ms", value, _AT_MOST, at_least=False)
    return rows, (target,), ()


def _up(context: BenchmarkContext, words: list[str]) -> AbstractContextManager[Contender]:
    folder = context.folder / Path(words[-1]).name
    recipe = contenders.with_stored_fleet(folder, contenders.OURS, addresses([1]), words)
    return running(replace(recipe, cores=CORES))


def _place(server: Contender, words: list[str]) -> dict[str, str | int]:
    """The addresses of the metadata endpoint and of the console."""
    ready = read_ready(Path(words[-1]))
    return {
        "address": server.addresses[0],
        "port": server.port,
        "host": urlsplit(ready["console"]).netloc,
        "token": ready["token"],
    }


# --- A client of both processes, in a separate process --------------------------------------------


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


async def notified(url: str, changes: int) -> dict[str, float]:
    """The time from writing a row until another connection is notified."""
    laps = []
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as writer,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as listener,
    ):
        await writer.execute(TABLE)
        await writer.execute(FILL, (ROWS,))
        await listener.execute("LISTEN bench")
        for number in range(changes):
            heard = asyncio.create_task(_hear(listener))
            await asyncio.sleep(0)
            began = time.perf_counter()
            async with writer.transaction():
                await writer.execute(UPDATE, (raw.body(0, number), number % ROWS))
                await writer.execute("NOTIFY bench")
            laps.append(await heard - began)
    return times_ms(laps)


async def _hear(listener: psycopg.AsyncConnection[Any]) -> float:
    async for _ in listener.notifies(stop_after=1):
        pass
    return time.perf_counter()
