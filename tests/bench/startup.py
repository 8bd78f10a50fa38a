"""The start of a fleet from its file."""

from functools import partial
from typing import Any

from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result
from tests.bench.fleets import SMALL_FLEET
from tests.bench.measure import Sample, middle

_PEER = "SQLite alone opens the large file"


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    large, impacts = context.effort.machines, context.effort.impacts
    busy = context.copy(context.fleet(large))
    context.probe("impacts", path=str(busy), machines=large, impacts=impacts)
    small = f"{SMALL_FLEET} machines, nothing under way"
    whole = f"{large:,} machines, {impacts:,} unfinished impacts"
    answers: dict[str, list[dict[str, Any]]] = context.in_turn(
        {
            _PEER: partial(context.probe, "open_alone", path=str(busy)),
            small: partial(context.probe, "start", path=str(context.fleet(SMALL_FLEET))),
            whole: partial(context.probe, "start", path=str(busy)),
        }
    )
    assert all(answer["impacts"] == impacts for answer in answers[whole])
    taken = {
        name: middle([Sample(**answer["sample"]) for answer in rounds])
        for name, rounds in answers.items()
    }
    peer = taken[_PEER]
    return Result(
        name="startup",
        title="Start",
        about="From opening the file, in a new process with its modules loaded, until the fleet "
        "accepts commands: it takes the lock, checks the schema, passes every unfinished impact "
        f"to the driver again and reads the next due time. Compared with: {_PEER} with the same "
        "settings, takes the lock and reads one row.",
        rows={
            name: {
                "CPU ms": sample.cpu * 1e3,
                "wall ms": sample.wall * 1e3,
                "wall ÷ SQLite alone": sample.wall / peer.wall,
            }
            for name, sample in taken.items()
        },
    )
