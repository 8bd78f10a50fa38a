"""`--workers`: the gain of a second process on a second core, compared with nginx."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial

from tests.bench import contenders, load
from tests.bench.clients import addresses, flood, poll
from tests.bench.contenders import NGINX, OURS, Contender, Recipe, ask, running
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Figures, Result, Target, described
from tests.bench.fleets import SMALL_FLEET
from tests.bench.measure import Sample
from tests.bench.processes import CORES, cpu_seconds, pinned
from tests.bench.storage import Databases, on_postgresql

_COUNTS = (1, 2)
_CONNECTIONS = 128  # per core: many, so that each worker gets its share
_AT_LEAST = 1.6
_RATIO = "÷ 1 worker"


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    text = described("workers", machines=SMALL_FLEET, connections=_CONNECTIONS)
    if len(CORES) < _COUNTS[-1]:
        return Result(*text, rows={}, notes=("Not measured: there is only one core.",))
    return on_postgresql(context, text, _run)


def _run(context: BenchmarkContext, storage: Databases) -> Figures:
    shares: dict[str, float] = {}
    with _servers(context, storage) as (servers, missing):
        runs: dict[str, Callable[[], Sample]] = {
            _called(server.name, count): partial(_sample, context, server, count, shares)
            for server, count in servers
        }
        taken = context.samples(runs)
    rows = {name: _row(name, taken, shares) for name in taken}
    ratio = rows[_called(OURS, _COUNTS[-1])][_RATIO]
    target = Target(f"{OURS}: polls of 2 workers {_RATIO}", ratio, _AT_LEAST, at_least=True)
    if not load.has_wrk(context):
        missing.append("Load: our own clients on uvloop, because wrk is not installed.")
    return rows, (target,), missing


def _called(server: str, workers: int) -> str:
    return f"{server}, {workers} worker{'s' * (workers > 1)}"


def _row(name: str, taken: Mapping[str, Sample], shares: Mapping[str, float]) -> dict[str, float]:
    server = name.rpartition(", ")[0]
    sample, single = taken[name], taken[_called(server, _COUNTS[0])]
    return {
        "polls a second": sample.rate,
        _RATIO: sample.rate / single.rate,
        "CPU µs a poll": sample.cpu_us,
        "busiest worker, %": 100 * shares[name],
    }


# --- Servers ----------------------------------------------------------------------------------


@contextmanager
def _servers(
    context: BenchmarkContext, storage: Databases
) -> Iterator[tuple[list[tuple[Contender, int]], list[str]]]:
    """Run all servers with their workers; the others are idle during a measurement."""
    with ExitStack() as stack:
        servers = [(stack.enter_context(running(_ours(context, storage, n))), n) for n in _COUNTS]
        address = servers[0][0].addresses[0]
        body = servers[0][0].answer.partition(b"\r\n\r\n")[2]
        program = contenders.installed("nginx") if context.effort.apart else None
        for count in _COUNTS if program else ():
            recipe = contenders.nginx(context, str(program), [address], body, count)
            recipe = replace(recipe, cores=CORES[:count])
            servers.append((stack.enter_context(running(recipe)), count))
        missing = [] if program else [f"{NGINX}: not measured, because nginx is not installed."]
        yield servers, missing


def _ours(context: BenchmarkContext, storage: Databases, workers: int) -> Recipe:
    folder = context.folder / f"up-workers-{workers}"
    name = f"workers-{workers}"
    options = [*storage.words(storage.copy(SMALL_FLEET, name), name), "--workers", str(workers)]
    recipe = contenders.with_stored_fleet(folder, OURS, addresses([1]), options)
    return replace(recipe, cores=CORES[:workers])


# --- Load -------------------------------------------------------------------------------------


def _sample(
    context: BenchmarkContext, server: Contender, count: int, shares: dict[str, float]
) -> Sample:
    pids = server.process.pids()
    before = [cpu_seconds([pid]) for pid in pids]
    sample = _flood(context, server, CORES[:count])
    used = [cpu_seconds([pid]) - was for pid, was in zip(pids, before, strict=True)]
    shares[_called(server.name, count)] = max(used) / sum(used)
    return sample


def _flood(context: BenchmarkContext, server: Contender, cores: Sequence[int]) -> Sample:
    address, pids = server.addresses[0], server.process.pids()
    ask(address, server.port, poll(address))  # a first poll, so that a worker knows the machine
    if load.has_wrk(context):
        words = [f"-c{_CONNECTIONS * len(cores)}", f"-d{math.ceil(context.effort.seconds)}s"]
        url = f"http://{address}:{server.port}{load.PATH}"
        return load.wrk(server.name, pids, [*words, "-H", "Metadata: true", url], cores)
    asking = [address] * (_CONNECTIONS if context.effort.apart else 2)
    how = {"asking": asking, "seconds": context.effort.seconds, "pids": []}

    def flood_from(core: int) -> Sample:
        with pinned(core):
            return Sample(**context.probe(flood, port=server.port, **how))

    cpu = cpu_seconds(pids)
    with ThreadPoolExecutor(len(cores)) as threads:
        samples = list(threads.map(flood_from, cores))
    cpu = cpu_seconds(pids) - cpu
    return Sample(sum(s.count for s in samples), cpu, cpu, max(s.wall for s in samples))
