"""`--workers`: what a second process on a second core adds, beside what it adds to nginx."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from tests.bench import contenders, load
from tests.bench.clients import poll
from tests.bench.contenders import NGINX, OURS, Contender, Recipe, ask, running
from tests.bench.figures import Result, Target
from tests.bench.fleets import SMALL_FLEET
from tests.bench.homes import Databases, on_postgresql
from tests.bench.measure import Sample, middle
from tests.bench.processes import CORES, cpu_seconds, pinned
from tests.bench.stage import Stage

_NAME = "workers"
_TITLE = "Workers"
_COUNTS = (1, 2)
_CONNECTIONS = 128  # a core: many, so that each worker gets its share of them
_AT_LEAST = 1.6
_RATIO = "÷ 1 worker"
_ABOUT = (
    f"`fairwarning up --workers` on PostgreSQL with {SMALL_FLEET} machines, and nginx with as many "
    "workers, each with a listener of its own. Load comes from the same machine, so it is given "
    "what it takes in equal shares: one worker has one core together with its clients, "
    f"{_CONNECTIONS} connections that are kept and one thread of wrk; two workers have two cores "
    "together with twice the clients. With load from elsewhere a core gives more (*Serving a "
    "poll*), and two workers as many times more. CPU is that of the servers alone."
)


def run(stage: Stage) -> Result:
    """Measure."""
    if len(CORES) < _COUNTS[-1]:
        stage.expect(0)
        return Result(_NAME, _TITLE, _ABOUT, rows={}, notes=("Not measured: there is one core.",))
    return on_postgresql(stage, _NAME, _TITLE, _ABOUT, _run)


def _run(stage: Stage, home: Databases) -> Result:
    shares: dict[str, float] = {}
    with _servers(stage, home) as (servers, missing):
        runs: dict[str, Callable[[], Sample]] = {
            _called(server.name, count): partial(_sample, stage, server, count, shares)
            for server, count in servers
        }
        stage.expect(len(runs) * stage.effort.rounds)
        taken = {name: middle(found) for name, found in stage.in_turn(runs).items()}
    rows = {name: _row(name, taken, shares) for name in taken}
    ratio = rows[_called(OURS, _COUNTS[-1])][_RATIO]
    target = Target(f"{OURS}: polls of 2 workers {_RATIO}", ratio, _AT_LEAST, at_least=True)
    notes = (*missing, *_without(stage))
    return Result(_NAME, _TITLE, _ABOUT, rows, (target,), notes)


def _called(server: str, workers: int) -> str:
    return f"{server}, {workers} worker{'s' * (workers > 1)}"


def _row(name: str, taken: Mapping[str, Sample], shares: Mapping[str, float]) -> dict[str, float]:
    server = name.rpartition(", ")[0]
    sample, one = taken[name], taken[_called(server, _COUNTS[0])]
    return {
        "polls a second": sample.rate,
        _RATIO: sample.rate / one.rate,
        "CPU µs a poll": sample.cpu_us,
        "busiest worker, %": 100 * shares[name],
    }


def _without(stage: Stage) -> Iterator[str]:
    if not load.has_wrk(stage):
        yield "Load: clients of our own on uvloop, a process a core, for want of wrk."


# --- Who answers ------------------------------------------------------------------------------


@contextmanager
def _servers(
    stage: Stage, home: Databases
) -> Iterator[tuple[list[tuple[Contender, int]], list[str]]]:
    """All of them, with their workers; those that are not measured are idle meanwhile."""
    with ExitStack() as stack:
        servers = [(stack.enter_context(running(_ours(stage, home, n))), n) for n in _COUNTS]
        address = servers[0][0].addresses[0]
        body = servers[0][0].answer.partition(b"\r\n\r\n")[2]
        program = contenders.installed("nginx") if stage.effort.apart else None
        for count in _COUNTS if program else ():
            recipe = contenders.nginx(stage, str(program), [address], body, count)
            recipe = replace(recipe, cores=CORES[:count])
            servers.append((stack.enter_context(running(recipe)), count))
        missing = [] if program else [f"{NGINX}: not measured, because nginx is not installed."]
        yield servers, missing


def _ours(stage: Stage, home: Databases, workers: int) -> Recipe:
    folder = stage.folder / f"up-workers-{workers}"
    name = f"workers-{workers}"
    options = [*home.words(home.copy(SMALL_FLEET, name), name), "--workers", str(workers)]
    recipe = contenders.kept(folder, OURS, contenders.addresses(1), options)
    return replace(recipe, cores=CORES[:workers])


# --- Load -------------------------------------------------------------------------------------


def _sample(stage: Stage, server: Contender, count: int, shares: dict[str, float]) -> Sample:
    pids = server.process.pids()
    before = [cpu_seconds([pid]) for pid in pids]
    sample = _flood(stage, server, CORES[:count])
    used = [cpu_seconds([pid]) - was for pid, was in zip(pids, before, strict=True)]
    shares[_called(server.name, count)] = max(used) / sum(used)
    return sample


def _flood(stage: Stage, server: Contender, cores: Sequence[int]) -> Sample:
    address, pids = server.addresses[0], server.process.pids()
    ask(address, server.port, poll(address))  # so that a worker knows the machine
    if load.has_wrk(stage):
        words = [f"-c{_CONNECTIONS * len(cores)}", f"-d{math.ceil(stage.effort.seconds)}s"]
        url = f"http://{address}:{server.port}{load.PATH}"
        return load.wrk(server.name, pids, [*words, "-H", "Metadata: true", url], cores)
    addresses = [address] * (_CONNECTIONS if stage.effort.apart else 2)
    how = {"addresses": addresses, "seconds": stage.effort.seconds, "pids": []}

    def one(core: int) -> Sample:
        with pinned(core):
            return Sample(**stage.probe("flood", port=server.port, **how))

    cpu = cpu_seconds(pids)
    with ThreadPoolExecutor(len(cores)) as threads:
        samples = list(threads.map(one, cores))
    cpu = cpu_seconds(pids) - cpu
    return Sample(sum(s.count for s in samples), cpu, cpu, max(s.wall for s in samples))
