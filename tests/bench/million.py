"""A million machines in one process: what a poll costs, what a machine takes, how soon it is up."""

import signal
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

from tests.bench import contenders, load
from tests.bench.contenders import Contender, Recipe, running
from tests.bench.crowds import addresses
from tests.bench.figures import Result, Target
from tests.bench.fleets import SCOPE, SMALL_FLEET
from tests.bench.homes import Databases, Files, Home, on_postgresql
from tests.bench.measure import Sample
from tests.bench.stage import Stage
from tests.bench.traffic import WORDS

Figures = dict[str, float]

STEPS = 2  # a round

_CONNECTIONS = 1000
_EVERY = 10  # machine of a scope asks, where not all of it do
_HOT = 20  # scopes that commands are on
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


def sqlite(stage: Stage) -> Result:
    """Measure, with an SQLite file."""
    return _run(stage, "million-sqlite", "SQLite", Files(stage))


def postgresql(stage: Stage) -> Result:
    """Measure, with PostgreSQL."""
    name, where = "million-postgresql", "PostgreSQL"

    def run(stage: Stage, home: Databases) -> Result:
        return _run(stage, name, where, home)

    return on_postgresql(stage, name, *_words(stage, where), run)


def _words(stage: Stage, where: str) -> tuple[str, str]:
    effort = stage.effort
    title = f"{effort.vast:,} machines in one process, on {where}"
    about = (
        f"`fairwarning up` on {where} with {effort.vast:,} machines in scopes of {SCOPE}, beside "
        f"one with {SMALL_FLEET}; each round with fresh copies and fresh processes. Polls: "
        f"{_CONNECTIONS:,} connections that are kept, of as many scopes (in the small fleet: "
        "shared by its machines), ask as fast as they can, after "
        f"{effort.crowd:,} machines and every {_EVERY}th of the rest have asked, so that all "
        f"scopes are in memory. Commands ({WORDS[0].lower()}{WORDS[1:]}): by one submitter on "
        f"{_HOT} scopes, each a transaction of its own. First polls: one at a time, each of "
        "another scope, from before the connection; ever, which switches the feature on and is a "
        "commit, and again after the process was killed. Memory: what is resident more after "
        "machines have asked once, divided by how many have; where few of a scope ask, they share "
        "what the rest of it takes. Machines by themselves: the second half of "
        f"{_by_themselves(stage):,} in a fleet of their own, once."
    )
    return title, about


def _run(stage: Stage, name: str, where: str, home: Home) -> Result:
    stage.expect(STEPS * stage.effort.rounds + 1)
    vast = stage.effort.vast
    taken = stage.in_turn(
        {
            "small": partial(_small, stage, home),
            "vast": partial(_vast, stage, home, vast),
        }
    )
    small, large = (_middle(found) for found in taken.values())
    alone = _alone(stage, home)
    stage.step()
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
    disk = home.size(vast) / vast
    note = f"On the disk a machine takes {disk:,.0f} bytes, with indexes and its line of journal."
    return Result(name, *_words(stage, where), rows, tuple(targets), (note,))


def _middle(found: Sequence[Mapping[str, Mapping[str, float]]]) -> dict[str, Figures]:
    return {
        what: {column: median(one[what][column] for one in found) for column in row}
        for what, row in found[0].items()
    }


def _small(stage: Stage, home: Home) -> dict[str, Mapping[str, float]]:
    words = home.fresh(SMALL_FLEET)
    with running(_recipe(stage, words, SMALL_FLEET)) as server:
        polls = _polls(stage, server, SMALL_FLEET)
    return {_POLLS: polls, _COMMANDS: _commands(stage, words, SMALL_FLEET)}


def _vast(stage: Stage, home: Home, machines: int) -> dict[str, Mapping[str, float]]:
    """In order: the first polls, a crash, the same again, then ever more who ask."""
    effort, words = stage.effort, home.fresh(machines)
    recipe = _recipe(stage, words, machines)
    cold = SCOPE + 1, SCOPE * (1 + effort.cold), SCOPE  # the first scope was asked for at the start
    whole = cold[1] + 1, cold[1] + 1 + effort.crowd
    rest = whole[1], machines + 1, _EVERY
    with running(recipe) as server:
        start = server.first_answer_seconds
        ever = load.probe(stage, "one_by_one", server, numbers=cold)
        server.process.signal(signal.SIGKILL)
    with running(recipe) as server:
        found: dict[str, Any] = {
            "start": {_START: start * 1e3},
            _AGAIN: {_START: server.first_answer_seconds * 1e3},
            _EVER: ever,
            _AFTER: load.probe(stage, "one_by_one", server, numbers=cold),
            _WHOLE: _asked(stage, server, whole),
            _SOME: _asked(stage, server, rest),
            _POLLS: _polls(stage, server, machines),
        }
    return {**found, _COMMANDS: _commands(stage, words, machines)}


def _alone(stage: Stage, home: Home) -> dict[str, Mapping[str, float]]:
    """As many machines as scopes. The first half fills what does not grow with them: caches."""
    machines = _by_themselves(stage)
    first = machines // 2
    with running(_recipe(stage, home.fresh(machines, of_scope=1), machines)) as server:
        _asked(stage, server, (2, first + 1))
        return {_ALONE: _asked(stage, server, (first + 1, machines + 1))}


def _by_themselves(stage: Stage) -> int:
    return stage.effort.crowd // 2  # each is a commit


def _recipe(stage: Stage, words: list[str], machines: int) -> Recipe:
    folder = stage.folder / f"up-vast-{machines}"
    return contenders.kept(folder, contenders.OURS, addresses(range(1, 2)), words)


def _commands(stage: Stage, words: list[str], machines: int) -> Figures:
    """By a process of their own: the service is down."""
    _, data, *_ = words
    how = {"data": data, "machines": machines, "seconds": stage.effort.seconds, "among": _HOT}
    sample = Sample(**stage.probe("commands", **how))
    return {_CPU: sample.cpu_us, "a second": sample.rate}


def _asked(stage: Stage, server: Contender, numbers: tuple[int, ...]) -> Mapping[str, float]:
    pid = server.process.pids()[0]
    found: Figures = load.probe(stage, "each_once", server, numbers=numbers, pid=pid)
    return {**found, "resident MiB": server.process.resident() / _MEBI}


def _polls(stage: Stage, server: Contender, machines: int) -> Figures:
    """Connections of as many scopes as there are; where they are few, more of each machine."""
    pids = server.process.pids()
    connections = min(_CONNECTIONS, machines)
    step = max(machines // connections, 1)
    numbers = 1, 1 + step * connections, step
    times = max(_CONNECTIONS // machines, 1) if stage.effort.apart else 1
    how = {"numbers": numbers, "times": times, "seconds": stage.effort.seconds, "pids": pids}
    sample = Sample(**load.probe(stage, "together", server, **how))
    return {
        _CPU: sample.cpu_us,
        "a second": sample.rate,
        "resident MiB": server.process.resident() / _MEBI,
    }
