"""From a closed file to a fleet that is ready."""

from functools import partial
from typing import Any

from tests.bench.figures import Result
from tests.bench.fleets import SMALL_FLEET
from tests.bench.measure import Sample, middle
from tests.bench.stage import Stage

STEPS = 3  # a round

_PEER = "SQLite alone opens the large file"


def run(stage: Stage) -> Result:
    """Measure."""
    large, impacts = stage.effort.machines, stage.effort.impacts
    stage.expect(STEPS * stage.effort.rounds)
    busy = stage.copy(stage.fleet(large))
    stage.probe("impacts", path=str(busy), machines=large, impacts=impacts)
    small = f"{SMALL_FLEET} machines, nothing under way"
    whole = f"{large:,} machines, {impacts:,} unfinished impacts"
    answers: dict[str, list[dict[str, Any]]] = stage.in_turn(
        {
            _PEER: partial(stage.probe, "open_alone", path=str(busy)),
            small: partial(stage.probe, "start", path=str(stage.fleet(SMALL_FLEET))),
            whole: partial(stage.probe, "start", path=str(busy)),
        }
    )
    assert all(answer["impacts"] == impacts for answer in answers[whole])
    taken = {
        name: middle([Sample(**answer["sample"]) for answer in found])
        for name, found in answers.items()
    }
    peer = taken[_PEER]
    return Result(
        name="startup",
        title="Start",
        about="From opening the file, in a fresh process that has its modules loaded, until the "
        "fleet takes commands: the lock is taken, the schema checked, every unfinished impact "
        f"handed to the driver again, the next due time known. Beside it: {_PEER} with the same "
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
