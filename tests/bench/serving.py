"""The server's cost of a poll, compared with nginx and a server in Go, and as the fleet grows."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

from tests.bench import contenders, load
from tests.bench.contenders import GO, NGINX, OURS, Recipe, running
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result, Target, described
from tests.bench.fleets import SCOPE, SMALL_FLEET
from tests.bench.measure import Sample, middle

_KEPT = "keep-alive"
_FRESH = "fresh connection"
_KINDS = {_KEPT: "", _FRESH: "close"}
_HIT = f"{OURS}, with another query, always the same"
_MISSED = f"{OURS}, with another query each time (memo missed)"
_READ = f"{OURS}, with another header each time (read in full)"
_AT_LEAST = {(_KEPT, NGINX): 0.95, (_KEPT, GO): 3.0, (_FRESH, NGINX): 0.75, (_FRESH, GO): 1.5}
_MISS_AT_MOST = 2.0
_SEPARATOR = ": "


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    ours = contenders.in_memory(context, contenders.SCALE_SET)
    with contenders.beside(context, ours) as (servers, missing):
        runs: dict[tuple[str, str], Callable[[], Sample]] = {
            (kind, server.name): partial(load.flood, context, server, word)
            for kind, word in _KINDS.items()
            for server in servers
        }
        runs[_KEPT, _HIT] = partial(load.flood, context, servers[0], "same")
        runs[_KEPT, _MISSED] = partial(load.flood, context, servers[0], "changing")
        runs[_KEPT, _READ] = partial(load.flood, context, servers[0], "header")
        named = {_SEPARATOR.join(name): run for name, run in runs.items()}
        samples = context.samples(named)
        size = len(servers[0].answer)
    taken = {name: samples[_SEPARATOR.join(name)] for name in runs}
    return Result(
        *described("serving", machines=contenders.SCALE_SET, size=size),
        rows={
            _SEPARATOR.join(name): {
                "CPU µs": sample.cpu_us,
                "÷ ours": sample.cpu / taken[name[0], OURS].cpu,
                "a second": sample.rate,
            }
            for name, sample in taken.items()
        },
        targets=tuple(_targets(taken)),
        notes=(load.described(context), *missing),
    )


def _targets(taken: Mapping[tuple[str, str], Sample]) -> Iterator[Target]:
    for (kind, peer), bound in _AT_LEAST.items():
        if (kind, peer) in taken:
            ratio = taken[kind, peer].cpu / taken[kind, OURS].cpu
            yield Target(f"CPU, {kind}: {peer} ÷ {OURS}", ratio, bound, at_least=True)
    ratio = taken[_KEPT, _MISSED].cpu / taken[_KEPT, _HIT].cpu
    yield Target("CPU: memo missed ÷ memo hit", ratio, _MISS_AT_MOST, at_least=False)


# --- In a small and in a large fleet --------------------------------------------------------------


_LARGE_AT_MOST = 1.05
_STARTS = 3  # of a server per sample


def run_in_fleets(context: BenchmarkContext) -> Result:
    """Measure in a small and in a large fleet."""
    large = context.effort.machines
    recipes = [
        contenders.stored(context, SMALL_FLEET),
        contenders.stored(context, large),
        contenders.stored(context, large, spread=True),
    ]
    resident: dict[str, int] = {}
    samples = context.samples(
        {recipe.name: partial(_sample, context, recipe, resident) for recipe in recipes}
    )
    small, whole, _ = samples
    ratio = samples[whole].cpu / samples[small].cpu
    return Result(
        *described("reach", machines=SCOPE, starts=_STARTS),
        rows={
            name: {
                "CPU µs": sample.cpu_us,
                "÷ smaller": sample.cpu / samples[small].cpu,
                "a second": sample.rate,
                "resident MiB": resident[name] / (1 << 20),
            }
            for name, sample in samples.items()
        },
        targets=(
            Target(f"CPU of a poll: {whole} ÷ {small}", ratio, _LARGE_AT_MOST, at_least=False),
        ),
    )


def _sample(context: BenchmarkContext, recipe: Recipe, resident: dict[str, int]) -> Sample:
    samples = []
    for _ in range(_STARTS):
        with running(recipe) as server:
            samples.append(load.spread(context, server, list(server.addresses)))
            resident[recipe.name] = server.process.resident()
    return middle(samples)
