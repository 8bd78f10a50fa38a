"""The cost of a poll in a small and in a large fleet."""

from functools import partial

from tests.bench import contenders, load
from tests.bench.contenders import Recipe, running
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result, Target, described
from tests.bench.fleets import SCOPE, SMALL_FLEET
from tests.bench.measure import Sample, middle

_AT_MOST = 1.05
_STARTS = 3  # of a server per sample


def run(context: BenchmarkContext) -> Result:
    """Measure."""
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
        targets=(Target(f"CPU of a poll: {whole} ÷ {small}", ratio, _AT_MOST, at_least=False),),
    )


def _sample(context: BenchmarkContext, recipe: Recipe, resident: dict[str, int]) -> Sample:
    samples = []
    for _ in range(_STARTS):
        with running(recipe) as server:
            samples.append(load.spread(context, server, list(server.addresses)))
            resident[recipe.name] = server.process.resident()
    return middle(samples)
