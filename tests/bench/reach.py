"""What a poll costs in a small fleet and in a large one."""

from functools import partial

from tests.bench import contenders, load
from tests.bench.contenders import Recipe, running
from tests.bench.figures import Result, Target
from tests.bench.fleets import SCOPE, SMALL_FLEET
from tests.bench.measure import Sample, middle
from tests.bench.stage import Stage

STEPS = 3  # a round

_AT_MOST = 1.05
_STARTS = 3  # of a server, for one sample


def run(stage: Stage) -> Result:
    """Measure."""
    stage.expect(STEPS * stage.effort.rounds)
    large = stage.effort.machines
    recipes = [
        contenders.stored(stage, SMALL_FLEET),
        contenders.stored(stage, large),
        contenders.stored(stage, large, spread=True),
    ]
    resident: dict[str, int] = {}
    taken = stage.in_turn(
        {recipe.name: partial(_sample, stage, recipe, resident) for recipe in recipes}
    )
    samples = {name: middle(found) for name, found in taken.items()}
    small, whole, _ = samples
    ratio = samples[whole].cpu / samples[small].cpu
    return Result(
        name="reach",
        title="The cost of a poll as the fleet grows",
        about=f"`fairwarning up` with an SQLite file, scopes of {SCOPE} machines. As many "
        "machines, of one scope or of as many scopes, poll as fast as they can, each on a "
        "connection of its own; load comes from clients of our own, on another core. Each sample "
        f"is the median of {_STARTS} servers, started one after the other: how a process happens "
        "to lie in memory makes a tenth of a poll's cost. Machines of one scope share their "
        "answer, which stays in the processor's cache.",
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


def _sample(stage: Stage, recipe: Recipe, resident: dict[str, int]) -> Sample:
    samples = []
    for _ in range(_STARTS):
        with running(recipe) as server:
            samples.append(load.spread(stage, server, list(server.addresses)))
            resident[recipe.name] = server.process.resident()
    return middle(samples)
