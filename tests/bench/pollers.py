"""A fleet as it polls in life: every machine once a second, and how long each waits."""

from functools import partial
from statistics import median

from tests.bench import contenders, load
from tests.bench.contenders import Contender
from tests.bench.figures import Result
from tests.bench.stage import Stage

_SPREAD = 1.5  # seconds for one of a sample: each poller asks a few times


def run(stage: Stage) -> Result:
    """Measure."""
    pollers = stage.effort.pollers
    with contenders.beside(stage, contenders.in_memory(stage, pollers)) as (servers, missing):
        stage.expect(len(servers) * stage.effort.rounds)
        runs = {server.name: partial(_pace, stage, server) for server in servers}
        taken = stage.in_turn(runs)
    return Result(
        name="pollers",
        title="Pollers at one a second",
        about=f"{pollers:,} machines in scale sets of {contenders.SCALE_SET}, each with a "
        "connection that it keeps and an address of its own, ask once a second, evenly spread. "
        "How long they wait is what a client sees (its own event loop included), and mostly the "
        "time that an idle core takes to wake. The servers are those above; nginx is asked at one "
        "address by all.",
        rows={
            name: {column: median(one[column] for one in found) for column in found[0]}
            for name, found in taken.items()
        },
        notes=tuple(missing),
    )


def _pace(stage: Stage, server: Contender) -> dict[str, float]:
    seconds = stage.effort.seconds * _SPREAD
    pids, addresses = server.process.pids(), list(server.addresses)
    found: dict[str, float] = load.probe(
        stage, "pace", server, addresses=addresses, seconds=max(seconds, 0.2), pids=pids
    )
    return found
