"""Measurements on PostgreSQL, each in a separate process."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from secrets import token_hex
from typing import Any

import psycopg

from fairwarning.service.polls import STATEMENT_SCOPES
from tests.bench import fleets, raw
from tests.bench.fleets import serving
from tests.bench.generator import store_of
from tests.bench.measure import Stopwatch, times_ms
from tests.bench.processes import family_seconds
from tests.bench.traffic import Traffic, shares

_ROWS = 200
_TABLE = "CREATE TABLE IF NOT EXISTS thing (id integer PRIMARY KEY, body text NOT NULL)"
_FILL = "INSERT INTO thing SELECT n, '' FROM generate_series(0, %s) AS n ON CONFLICT DO NOTHING"
_UPDATE = "UPDATE thing SET body = %s WHERE id = %s"
_POSITION = "SELECT (pg_current_wal_lsn() - '0/0'::pg_lsn)::bigint"
_LOOK_SECONDS = 0.001


class Meter:
    """The database's own usage so far: bytes of log, seconds of CPU."""

    def __init__(self, url: str, server: int) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._server = server

    def read(self) -> dict[str, float]:
        row = self._connection.execute(_POSITION).fetchone()
        assert row
        return {"log": float(row[0]), "cpu": family_seconds(self._server)}

    def checkpoint(self) -> None:
        self._connection.execute("CHECKPOINT")

    def close(self) -> None:
        self._connection.close()


async def drive(
    url: str,
    server: int,
    *,
    numbers: Sequence[int],
    submitters: int,
    seconds: float,
    barrier: str,
) -> dict[str, Any]:
    """Submit commands on these scopes, once all processes have reached the barrier."""
    scopes = fleets.scope_names(numbers[1])[slice(*numbers)]
    traffic = Traffic()
    async with serving(store_of(url), traffic) as fleet:
        await fleets.enable(fleet, scopes)
        with closing(Meter(url, server)) as meter:
            await asyncio.to_thread(_meet, Path(barrier))
            before = meter.read()
            sample = await traffic.load(fleet, shares(scopes, submitters), seconds)
            return {"sample": sample.plain(), "before": before, "after": meter.read()}


def _meet(folder: Path) -> None:
    """Wait for the other processes; the folder's name ends with their number."""
    (folder / token_hex(4)).touch()
    while len(list(folder.iterdir())) < int(folder.name.rpartition("-")[2]):
        time.sleep(_LOOK_SECONDS)


async def row_by_row(url: str, server: int, seconds: float) -> dict[str, Any]:
    """Update one row per transaction, on one connection."""
    tag, done = int(token_hex(4), 16), 0
    with (
        psycopg.connect(url, autocommit=True) as connection,
        closing(Meter(url, server)) as meter,
    ):
        connection.execute(_TABLE)
        connection.execute(_FILL, (_ROWS,))
        before, watch = meter.read(), Stopwatch()
        while not done or watch.passed() < seconds:
            connection.execute(_UPDATE, (raw.body(tag, done), done * 7 % _ROWS))
            done += 1
        sample = watch.sample(done)
        return {"sample": sample.plain(), "before": before, "after": meter.read()}


async def record(url: str, server: int, scopes: int) -> dict[str, float]:
    """Record the polls of all scopes once; return the database's usage for each."""
    names = fleets.scope_names(scopes)
    Random(scopes).shuffle(names)
    store = store_of(url)
    await store.open()
    try:
        with closing(Meter(url, server)) as meter:
            before, now = meter.read(), time.time()
            for first in range(0, scopes, STATEMENT_SCOPES):
                await store.record_polls(
                    dict.fromkeys(names[first : first + STATEMENT_SCOPES], now)
                )
            meter.checkpoint()
            after = meter.read()
    finally:
        await store.close()
    return {what: (after[what] - before[what]) / scopes for what in before}


async def notified(url: str, changes: int) -> dict[str, float]:
    """The time from writing a row until another connection is notified."""
    laps = []
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as writer,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as listener,
    ):
        await writer.execute(_TABLE)
        await writer.execute(_FILL, (_ROWS,))
        await listener.execute("LISTEN bench")
        for number in range(changes):
            heard = asyncio.create_task(_hear(listener))
            await asyncio.sleep(0)
            began = time.perf_counter()
            async with writer.transaction():
                await writer.execute(_UPDATE, (raw.body(0, number), number % _ROWS))
                await writer.execute("NOTIFY bench")
            laps.append(await heard - began)
    return times_ms(laps)


async def _hear(listener: psycopg.AsyncConnection[Any]) -> float:
    async for _ in listener.notifies(stop_after=1):
        pass
    return time.perf_counter()
