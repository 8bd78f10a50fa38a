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
from tests.bench import contenders
from tests.bench.clients import TAG, addresses, connect, poll
from tests.bench.commands import body
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

    def __init__(self, place: Mapping[str, Any]) -> None:
        self._place = place
        self._tag = ""

    async def connect(self) -> None:
        """Connect to both, and read the first document."""
        host, _, port = str(self._place["host"]).rpartition(":")
        self.console = await connect(host, int(port))
        self.machine = await connect(self._place["address"], self._place["port"])
        await self.look(wait="")

    async def look(self, wait: str = "&wait=30") -> tuple[float, bytes]:
        """Return the time of the next change and the new document."""
        header = f"If-None-Match: {self._tag}\r\n" if wait else ""
        answer = await self.machine.ask(poll(self._place["address"], wait, header))
        match = TAG.search(answer)
        assert match
        self._tag = match[1].decode()
        return self.machine.answered, answer

    async def post(self, path: str, status: int) -> float:
        """Send a command; return when it was acknowledged."""
        request = (
            f"POST {path} HTTP/1.1\r\nHost: {self._place['host']}\r\n"
            f"Authorization: Bearer {self._place['token']}\r\n"
            "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
        )
        await self.console.ask(request.encode("ascii"), status)
        return self.console.answered


async def seen_through_both(places: Sequence[Mapping[str, Any]], changes: int) -> dict[str, Any]:
    """Make this many changes through each process in turn, after some that warm both up.

    A machine is restarted, and its event cancelled through the other process.
    """
    writer, reader = (Side(place) for place in places)
    for side in (writer, reader):
        await side.connect()
    event, laps = None, []
    for _ in range(_UNMEASURED + changes):
        seen = [asyncio.create_task(side.look()) for side in (writer, reader)]
        await asyncio.sleep(0)  # both poll
        sent = time.perf_counter()
        if event:
            acknowledged = await writer.post(f"/api/events/{event[1].decode()}/cancel", 200)
        else:
            acknowledged = await writer.post(f"/api/machines/{_MACHINE}/restart", 202)
        (here, document), (there, _) = await asyncio.gather(*seen)
        event = _EVENT.search(document)
        laps.append({ACKNOWLEDGED: acknowledged - sent, SAME: here - sent, ANOTHER: there - sent})
        writer, reader = reader, writer
    for side in (writer, reader):
        side.console.transport.close()
        side.machine.transport.close()
    return {name: times_ms([lap[name] for lap in laps[_UNMEASURED:]]) for name in laps[0]}


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
                await writer.execute(UPDATE, (body(0, number), number % ROWS))
                await writer.execute("NOTIFY bench")
            laps.append(await heard - began)
    return times_ms(laps)


async def _hear(listener: psycopg.AsyncConnection[Any]) -> float:
    async for _ in listener.notifies(stop_after=1):
        pass
    return time.perf_counter()
