"""Every machine of a fleet polls once a second: the response times."""

from functools import partial

from tests.bench import contenders, load
from tests.bench.contenders import Contender
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result

_SPREAD = 1.5  # seconds per second of a sample: each poller polls a few times


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    pollers = context.effort.pollers
    with contenders.beside(context, contenders.in_memory(context, pollers)) as (servers, missing):
        runs = {server.name: partial(_pace, context, server) for server in servers}
        rows = context.medians(runs)
    return Result(
        name="pollers",
        title="Pollers at one a second",
        about=f"{pollers:,} machines in scale sets of {contenders.SCALE_SET}, each with its own "
        "persistent connection and address, poll once a second, evenly spread. The response time "
        "is what a client sees (including its event loop), and mostly the time that an idle core "
        "takes to wake up. The servers are those above; for nginx all machines use one address.",
        rows=rows,
        notes=tuple(missing),
    )


def _pace(context: BenchmarkContext, server: Contender) -> dict[str, float]:
    seconds = context.effort.seconds * _SPREAD
    pids, addresses = server.process.pids(), list(server.addresses)
    row: dict[str, float] = load.probe(
        context, "pace", server, addresses=addresses, seconds=max(seconds, 0.2), pids=pids
    )
    return row
