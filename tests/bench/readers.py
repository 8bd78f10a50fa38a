"""Readers of a long journal, and what commands, approvals and timers notice of them (IB3)."""

import asyncio
import json
import os
import re
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from email.utils import parsedate_to_datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg

from tests.bench import contenders
from tests.bench.clients import TAG, Client, addresses, connect, poll
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result, Target, described
from tests.bench.generate import store_of
from tests.bench.measure import percentile
from tests.bench.processes import LOAD_CORE, Process, pinned
from tests.bench.storage import databases
from tests.fixtures.postgres.programs import NoPostgreSQL

ASKED, TIMED = "asked", "timed"  # the sets of machines
ASKED_MACHINES, TIMED_MACHINES = 100, 100

_PAGE = 1000
# A machine is used again when it has recovered: from a freeze of a second, or a reboot of a minute.
_ASKED_SECONDS = 0.06  # from one machine to the next
_TIMED_SECONDS = 1.0
_UNMEASURED = 5  # commands: the first one starts the console
_NOT_BEFORE = re.compile(rb'"NotBefore":"([^"]+)"')
_NICE = 15  # the readers leave the core to the timed clients
_LINE = ("'operator', 'Scope', 'old', 'Delivered', '', '[\"old_0\"]', ''"
         ", '', ''")  # fmt: skip
_SQLITE = f"""
WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :lines)
INSERT INTO journal (number, before, at, actor, kind, id, type, event, machines, operation, detail,
    announcement, first_line) SELECT n, 0, :now, {_LINE}, 0 FROM numbers
"""
_POSTGRES = f"""
INSERT INTO journal (number, at, actor, kind, id, type, event, machines, operation, detail,
    announcement) SELECT n, %(now)s, {_LINE} FROM generate_series(1, %(lines)s) AS n
"""
_READERS = 50
_LINES = 10  # of the journal, per command of history
_SAMPLES = 5  # times the usual length of a sample
_AT_MOST = 2.0
_LATE_MS = 1000.0
_WITHOUT, _WITH = "no readers", "with readers"
_FLEET = (
    f'[rules]\nreboot_seconds = 1\n[[availability_set]]\nname = "{ASKED}"\n'
    f"machines = {ASKED_MACHINES}\nupdate_domains = 1\n"
) + "".join(f'[[machine]]\nname = "{TIMED}_{n}"\n' for n in range(TIMED_MACHINES))


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    lines = max(context.effort.history * _LINES, 1000)
    readers = _READERS if context.effort.apart else 2
    notes: list[str] = []
    runs: dict[str, Callable[[], dict[str, float]]] = {}
    with ExitStack() as stack:
        stores = stack.enter_context(_stores(context, notes))
        for store, (data, words) in stores.items():
            context.probe(write_lines, data=data, lines=lines)
            place = stack.enter_context(_serving(context.folder / f"up-{store}", words, lines))
            for name, count in {_WITHOUT: 0, _WITH: readers}.items():
                runs[f"{store}, {name}"] = partial(_sample, context, place, count)
        rows = context.medians(runs)
    return Result(
        *described(
            "readers", readers=readers, machines=ASKED_MACHINES + TIMED_MACHINES, lines=lines
        ),
        rows=rows,
        targets=tuple(_targets(rows, list(stores))),
        notes=tuple(notes),
    )


@contextmanager
def _stores(
    context: BenchmarkContext, notes: list[str]
) -> Iterator[dict[str, tuple[str, list[str]]]]:
    """The data of each store, and the options of `up` that name it."""
    folder = str(context.folder / "readers-sqlite")
    stores = {"SQLite": (folder, ["--data", folder])}
    try:
        with databases(context) as storage:
            url = storage.server.database()
            stores["PostgreSQL"] = url, storage.words(url, "readers")
            yield stores
    except NoPostgreSQL as reason:
        notes.append(f"PostgreSQL: not measured, because {reason}.")
        yield stores


@contextmanager
def _serving(folder: Path, words: list[str], lines: int) -> Iterator[dict[str, Any]]:
    """Serve this data; yields what the clients need to know."""
    machines = addresses(range(1, ASKED_MACHINES + TIMED_MACHINES + 1))
    start = partial(contenders.serve, folder, _FLEET, ["--json", *words])
    with contenders.running(contenders.Recipe("", folder, machines, start)) as server:
        ready: dict[str, Any] = json.loads(server.process.line())
        yield {
            "address": machines[0],
            "timed": machines[ASKED_MACHINES:],
            "port": server.port,
            "host": urlsplit(ready["console"]).netloc,
            "token": ready["token"],
            "lines": lines,
        }


def _sample(context: BenchmarkContext, place: Mapping[str, Any], readers: int) -> dict[str, float]:
    seconds = max(context.effort.seconds * _SAMPLES, 0.1)
    words = [sys.executable, "-m", "tests.bench.readers", json.dumps(place), str(readers)]
    with Process(words, context.folder / "log-readers", cores=(LOAD_CORE,)) as others:
        others.line()
        with pinned(LOAD_CORE):
            figures: dict[str, float] = context.probe(timed, place=place, seconds=seconds)
        others.signal(signal.SIGTERM)
        pages = int(others.line())
    return {**figures, "pages a second": pages / seconds} if readers else figures


def _targets(rows: Mapping[str, Mapping[str, float]], stores: list[str]) -> Iterator[Target]:
    for store in stores:
        without, beside = rows[f"{store}, {_WITHOUT}"], rows[f"{store}, {_WITH}"]
        for what in ("command", "approval"):
            ratio = beside[f"{what} p99 ms"] / without[f"{what} p99 ms"]
            yield Target(
                f"{store}: {what} p99, with readers ÷ without", ratio, _AT_MOST, at_least=False
            )
        late = beside["latest start, ms"]
        yield Target(f"{store}: latest start with readers, ms", late, _LATE_MS, at_least=False)


# --- Clients that read the journal, and clients that are timed meanwhile --------------------------


async def write_lines(data: str, lines: int) -> bool:
    """Fill the journal of an empty store."""
    store = store_of(data)
    await store.open()
    await store.close()
    values = {"lines": lines, "now": time.time()}  # older lines would be dropped
    if "://" not in data:
        with closing(sqlite3.connect(Path(data) / "fleet.db")) as file, file:
            file.execute(_SQLITE, values)
            file.execute("UPDATE head SET line = ?", (lines,))
        return True
    with psycopg.connect(data, options="-csearch_path=fairwarning") as database:
        for line in range(0, lines + 1, 1_000_000):
            database.execute("SELECT add_partition(%s)", (line,))
        database.execute(_POSTGRES, values)
        database.execute("UPDATE head SET line = %s", (lines,))
    return True


async def timed(place: Mapping[str, Any], seconds: float) -> dict[str, float]:
    """Time commands, approvals and starts."""
    end = time.perf_counter() + seconds
    (commands, approvals), late = await asyncio.gather(_approvals(place, end), _starts(place, end))
    return {
        "command p50 ms": percentile(commands, 0.5) * 1e3,
        "command p99 ms": percentile(commands, 0.99) * 1e3,
        "approval p50 ms": percentile(approvals, 0.5) * 1e3,
        "approval p99 ms": percentile(approvals, 0.99) * 1e3,
        "latest start, ms": max(late) * 1e3,
    }


async def _approvals(place: Mapping[str, Any], end: float) -> tuple[list[float], list[float]]:
    """Freeze one machine after the other, which approves at once; return the times of both."""
    console = await _console(place)
    target = poll(place["address"]).split()[1].decode()
    commands: list[float] = []
    approvals: list[float] = []
    number = 0
    while len(commands) <= _UNMEASURED or time.perf_counter() < end:
        began = time.perf_counter()
        number = max(number + 1, int(time.time() / _ASKED_SECONDS))
        path = f"/api/machines/{ASKED}_{number % ASKED_MACHINES}/freeze"
        request = _post(place["host"], path, _bearer(place), '{"duration_seconds": 1}')
        await console.ask(request, 202)
        commands.append(console.answered - began)
        machine = await connect(place["address"], place["port"])
        document = await machine.ask(poll(place["address"]))
        events = json.loads(document.partition(b"\r\n\r\n")[2])["Events"]
        event = next(e["EventId"] for e in events if e["EventStatus"] == "Scheduled")
        body = json.dumps({"StartRequests": [{"EventId": event}]})
        sent = time.perf_counter()
        await machine.ask(_post(place["address"], target, "Metadata: true\r\n", body))
        approvals.append(machine.answered - sent)
        machine.transport.close()
        await asyncio.sleep(began + _ASKED_SECONDS - time.perf_counter())
    console.transport.close()
    return commands[_UNMEASURED:], approvals[_UNMEASURED:]


async def _starts(place: Mapping[str, Any], end: float) -> list[float]:
    """Restart machines that do not approve; return how late each sees that its event has begun."""
    late: list[asyncio.Task[float]] = []
    number = 0
    while not late or time.perf_counter() < end:
        number = max(number + 1, int(time.time() / _TIMED_SECONDS))
        late.append(asyncio.create_task(_start(place, number % TIMED_MACHINES)))
        await asyncio.sleep(_TIMED_SECONDS)
    return await asyncio.gather(*late)


async def _start(place: Mapping[str, Any], number: int) -> float:
    console, address = await _console(place), place["timed"][number]
    machine = await connect(address, place["port"])
    await machine.ask(poll(address))
    await console.ask(
        _post(place["host"], f"/api/machines/{TIMED}_{number}/restart", _bearer(place)), 202
    )
    announced = await _next(machine, address, b"Scheduled")
    not_before = parsedate_to_datetime(_NOT_BEFORE.findall(announced)[0].decode()).timestamp()
    await _next(machine, address, b"Started")
    console.transport.close()
    machine.transport.close()
    return max(time.time() - not_before, 1e-6)


async def _next(machine: Client, address: str, text: bytes) -> bytes:
    """Return the document once it has this text."""
    document = await machine.ask(poll(address))
    while text not in document:
        match = TAG.search(document)
        assert match
        header = f"If-None-Match: {match[1].decode()}\r\n"
        document = await machine.ask(poll(address, "&wait=30", header))
    return document


async def _console(place: Mapping[str, Any]) -> Client:
    host, _, port = str(place["host"]).rpartition(":")
    return await connect(host, int(port))


def _bearer(place: Mapping[str, Any]) -> str:
    return f"Authorization: Bearer {place['token']}\r\nContent-Type: application/json\r\n"


def _post(host: str, path: str, headers: str, body: str = "{}") -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nHost: {host}\r\n{headers}"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    ).encode("ascii")


async def read(place: Mapping[str, Any], readers: int) -> None:
    """Read the journal, page after page, until this process is told to end.

    Print a line once a page was read, and how many at the end.
    """
    ended, pages = asyncio.Event(), count()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)

    async def read_pages(number: int) -> None:
        client, after = await _console(place), number * _PAGE
        while True:
            path = f"/api/journal?limit={_PAGE}&after={after % place['lines']}"
            await client.ask(
                f"GET {path} HTTP/1.1\r\nHost: {place['host']}\r\n{_bearer(place)}\r\n".encode()
            )
            after += readers * _PAGE
            if next(pages) == 0:
                print(flush=True)

    tasks = [asyncio.create_task(read_pages(number)) for number in range(readers)]
    if not readers:
        print(flush=True)
    await asyncio.wait(
        [asyncio.create_task(ended.wait()), *tasks], return_when=asyncio.FIRST_COMPLETED
    )
    for task in tasks:
        if task.done():
            task.result()
    print(next(pages), flush=True)


if __name__ == "__main__":
    os.nice(_NICE)
    asyncio.run(read(json.loads(sys.argv[1]), int(sys.argv[2])))
