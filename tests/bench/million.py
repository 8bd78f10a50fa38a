"""A million machines in one process: cost of a poll, memory per machine, start time."""

import asyncio
import signal
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from tests.bench import contenders, load
from tests.bench.clients import addresses, connect, flood, idle, poll
from tests.bench.contenders import Contender, Recipe, running
from tests.bench.context import BenchmarkContext, medians
from tests.bench.figures import Figures, Result, Target, described
from tests.bench.fleets import SCOPE, SMALL_FLEET
from tests.bench.measure import Sample, times_ms
from tests.bench.processes import most_descriptors, resident_bytes
from tests.bench.storage import Files, Storage, on_postgresql
from tests.bench.traffic import WORDS, commands

Row = dict[str, float]

_CONNECTIONS = 1000
_AT_ONCE = 32  # concurrent connections of clients
_EVERY = 10  # machine of a scope polls, unless all do
_HOT = 20  # scopes with commands
_CPU, _START, _BYTES, _P99 = "CPU µs", "first answer, ms", "bytes a machine", "p99 ms"
_RATIO = f"÷ {SMALL_FLEET} machines"
_MEBI = 1 << 20
_POLLS, _COMMANDS, _AGAIN, _EVER, _AFTER, _WHOLE, _SOME, _ALONE = (
    "polls",
    "commands",
    "restart after kill -9",
    "first polls, ever",
    "first polls after the restart",
    "whole scopes have asked",
    f"one of {_EVERY} of a scope has asked",
    "machines by themselves have asked",
)
_AT_MOST = {
    (_POLLS, _RATIO): 1.1,
    (_COMMANDS, _RATIO): 1.2,
    (_WHOLE, _BYTES): 2048,
    (_EVER, _P99): 20,
    (_AFTER, _P99): 20,
    (_AGAIN, _START): 2000,
}


def sqlite(context: BenchmarkContext) -> Result:
    """Measure, with an SQLite file."""
    return Result(*_text(context, "SQLite"), *_run(context, Files(context), "SQLite"))


def postgresql(context: BenchmarkContext) -> Result:
    """Measure, with PostgreSQL."""
    store = "PostgreSQL"
    return on_postgresql(context, _text(context, store), partial(_run, where=store))


def _text(context: BenchmarkContext, store: str) -> tuple[str, str, str]:
    _, title, about = described(
        "million",
        store=store,
        machines=context.effort.vast,
        scope=SCOPE,
        small=SMALL_FLEET,
        connections=_CONNECTIONS,
        crowd=context.effort.crowd,
        every=_EVERY,
        words=f"{WORDS[0].lower()}{WORDS[1:]}",
        hot=_HOT,
        alone=_by_themselves(context),
    )
    return f"million-{store.lower()}", title, about


def _run(context: BenchmarkContext, storage: Storage, where: str) -> Figures:
    vast = context.effort.vast
    taken = context.in_turn(
        {
            "small": partial(_small, context, storage),
            "vast": partial(_vast, context, storage, vast),
        }
    )
    small, large = (
        {what: medians([sample[what] for sample in samples]) for what in samples[0]}
        for samples in taken.values()
    )
    alone = _alone(context, storage)
    for what in small:
        large[what][_RATIO] = large[what][_CPU] / small[what][_CPU]
    rows = {
        **{f"{what}, {SMALL_FLEET} machines": row for what, row in small.items()},
        **large,
        **alone,
    }
    targets = (
        Target(f"{vast:,} machines, {where}: {what}, {column}", large[what][column], bound, False)
        for (what, column), bound in _AT_MOST.items()
    )
    disk = storage.size(vast) / vast
    note = f"A machine takes {disk:,.0f} bytes on disk, including indexes and its journal line."
    return rows, tuple(targets), (note,)


def _small(context: BenchmarkContext, storage: Storage) -> dict[str, Mapping[str, float]]:
    words = storage.fresh(SMALL_FLEET)
    with running(_recipe(context, words, SMALL_FLEET)) as server:
        polls = _polls(context, server, SMALL_FLEET)
    return {_POLLS: polls, _COMMANDS: _commands(context, words, SMALL_FLEET)}


def _vast(
    context: BenchmarkContext, storage: Storage, machines: int
) -> dict[str, Mapping[str, float]]:
    """In order: first polls, a crash, the same polls again, then more and more machines."""
    effort, words = context.effort, storage.fresh(machines)
    recipe = _recipe(context, words, machines)
    cold = SCOPE + 1, SCOPE * (1 + effort.cold), SCOPE  # the first scope was polled at the start
    whole = cold[1] + 1, cold[1] + 1 + effort.crowd
    rest = whole[1], machines + 1, _EVERY
    with running(recipe) as server:
        start = server.first_answer_seconds
        ever = load.probe(context, one_by_one, server, numbers=cold)
        server.process.signal(signal.SIGKILL)
    with running(recipe) as server:
        rows: dict[str, Any] = {
            "start": {_START: start * 1e3},
            _AGAIN: {_START: server.first_answer_seconds * 1e3},
            _EVER: ever,
            _AFTER: load.probe(context, one_by_one, server, numbers=cold),
            _WHOLE: _asked(context, server, whole),
            _SOME: _asked(context, server, rest),
            _POLLS: _polls(context, server, machines),
        }
    return {**rows, _COMMANDS: _commands(context, words, machines)}


def _alone(context: BenchmarkContext, storage: Storage) -> dict[str, Mapping[str, float]]:
    """One machine per scope. The first half fills the caches."""
    machines = _by_themselves(context)
    first = machines // 2
    with running(_recipe(context, storage.fresh(machines, of_scope=1), machines)) as server:
        _asked(context, server, (2, first + 1))
        return {_ALONE: _asked(context, server, (first + 1, machines + 1))}


def _by_themselves(context: BenchmarkContext) -> int:
    return context.effort.crowd // 2  # each needs a commit


def _recipe(context: BenchmarkContext, words: list[str], machines: int) -> Recipe:
    folder = context.folder / f"up-vast-{machines}"
    return contenders.with_stored_fleet(folder, contenders.OURS, addresses(range(1, 2)), words)


def _commands(context: BenchmarkContext, words: list[str], machines: int) -> Row:
    """Commands in a separate process, while the service is down."""
    _, data, *_ = words
    how = {"data": data, "machines": machines, "seconds": context.effort.seconds, "among": _HOT}
    sample = Sample(**context.probe(commands, **how))
    return {_CPU: sample.cpu_us, "a second": sample.rate}


def _asked(
    context: BenchmarkContext, server: Contender, numbers: tuple[int, ...]
) -> Mapping[str, float]:
    pid = server.process.pids()[0]
    figures: Row = load.probe(context, each_once, server, numbers=numbers, pid=pid)
    return {**figures, "resident MiB": server.process.resident() / _MEBI}


def _polls(context: BenchmarkContext, server: Contender, machines: int) -> Row:
    """Connections of as many scopes as possible; with few, several per machine."""
    pids = server.process.pids()
    connections = min(_CONNECTIONS, machines)
    step = max(machines // connections, 1)
    numbers = 1, 1 + step * connections, step
    times = max(_CONNECTIONS // machines, 1) if context.effort.apart else 1
    how = {"numbers": numbers, "times": times, "seconds": context.effort.seconds, "pids": pids}
    sample = Sample(**load.probe(context, together, server, **how))
    return {
        _CPU: sample.cpu_us,
        "a second": sample.rate,
        "resident MiB": server.process.resident() / _MEBI,
    }


# --- Clients, in a separate process ---------------------------------------------------------------

# Machines are named by their numbers: of 1,000,000 those `range(first, last, step)`.


async def one_by_one(numbers: Sequence[int], port: int) -> dict[str, float]:
    """Each machine polls once on its own connection, one after the other."""
    laps = [await _ask(address, port) for address in addresses(range(*numbers))]
    return times_ms(laps)


async def each_once(numbers: Sequence[int], port: int, pid: int) -> dict[str, float]:
    """Each machine polls once, many at a time; return the server's memory per machine."""
    before, asking = resident_bytes([pid]), addresses(range(*numbers))
    left = iter(asking)

    async def ask() -> None:
        for address in left:
            await _ask(address, port)

    await asyncio.gather(*(ask() for _ in range(_AT_ONCE)))
    await idle(pid)  # the server is still writing the polls
    return {"bytes a machine": (resident_bytes([pid]) - before) / len(asking)}


async def together(
    numbers: Sequence[int], port: int, seconds: float, pids: Sequence[int], times: int = 1
) -> dict[str, float]:
    """Each machine polls without pauses on several connections; see `flood`."""
    most_descriptors()
    return await flood(addresses(range(*numbers)) * times, port, seconds, pids)


async def _ask(address: str, port: int) -> float:
    """Seconds from before the connection to the response."""
    began = time.perf_counter()
    client = await connect(address, port)
    await client.ask(poll(address))
    client.transport.close()
    return client.answered - began
