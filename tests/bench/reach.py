"""What a poll costs in a small fleet and in a large one."""

from contextlib import ExitStack
from functools import partial

from tests.bench import contenders, load
from tests.bench.contenders import running
from tests.bench.figures import Result, Target
from tests.bench.fleets import SCOPE, SMALL_FLEET
from tests.bench.measure import middle
from tests.bench.stage import Stage

STEPS = 2  # a round

_ASKED = 100  # machines
_AT_MOST = 1.05


def run(stage: Stage) -> Result:
    """Measure."""
    stage.expect(STEPS * stage.effort.rounds)
    sizes = SMALL_FLEET, stage.effort.machines
    with ExitStack() as stack:
        servers = [
            stack.enter_context(running(contenders.stored(stage, size, _ASKED))) for size in sizes
        ]
        taken = stage.in_turn(
            {
                server.name: partial(load.spread, stage, server, list(server.addresses))
                for server in servers
            }
        )
        resident = {server.name: server.process.resident() for server in servers}
    samples = {name: middle(found) for name, found in taken.items()}
    small, large = samples
    ratio = samples[large].cpu / samples[small].cpu
    return Result(
        name="reach",
        title="The cost of a poll as the fleet grows",
        about=f"`fairwarning up` with an SQLite file, scopes of {SCOPE} machines. {_ASKED} "
        "machines, spread over the whole fleet, poll as fast as they can, each on a connection of "
        "its own; load comes from clients of our own, on another core. Both servers are up all "
        "the time, and one of them is asked.",
        rows={
            name: {
                "CPU µs": sample.cpu_us,
                "÷ smaller": sample.cpu / samples[small].cpu,
                "a second": sample.rate,
                "resident MiB": resident[name] / (1 << 20),
            }
            for name, sample in samples.items()
        },
        targets=(Target(f"CPU of a poll: {large} ÷ {small}", ratio, _AT_MOST, at_least=False),),
    )
