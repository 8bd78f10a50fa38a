"""What a machine takes at rest: memory and disk."""

from functools import partial
from statistics import median

from fairwarning.store import codec
from tests.bench import fleets
from tests.bench.figures import Result
from tests.bench.fleets import SMALL_FLEET
from tests.bench.stage import Stage

STEPS = 4  # a round

_MEBI = 1 << 20


def run(stage: Stage) -> Result:
    """Measure."""
    large, more = stage.effort.machines, stage.effort.machines - SMALL_FLEET
    stage.expect(STEPS * stage.effort.rounds)
    files = {size: stage.fleet(size) for size in (SMALL_FLEET, large)}
    taken = stage.in_turn(
        {
            f"{kind} {size}": ask
            for size in files
            for kind, ask in (
                ("file", partial(stage.probe, "at_rest", path=str(files[size]))),
                ("memory", partial(stage.probe, "in_memory", machines=size)),
            )
        }
    )
    resident = {name: median(sizes) for name, sizes in taken.items()}
    text = len(codec.encode(fleets.machine("scope-0000", 0, "127.0.0.1")))

    def row(few: float, many: float) -> dict[str, float]:
        each = (many - few) / more
        return {
            f"{SMALL_FLEET} machines, MiB": few / _MEBI,
            f"{large:,} machines, MiB": many / _MEBI,
            "bytes a machine": each,
            "÷ its JSON": each / text,
        }

    disk = {size: path.stat().st_size for size, path in files.items()}
    return Result(
        name="memory",
        title="Memory and disk for each machine",
        about="Resident memory of a fresh process that has opened the fleet and is idle, and the "
        "size of the file, which holds the journal of how the fleet came to be as well. The large "
        "fleet less the small one, divided by the machines between them; beside it a machine's "
        f"own JSON ({text} bytes).",
        rows={
            "memory, SQLite file opened": row(
                resident[f"file {SMALL_FLEET}"], resident[f"file {large}"]
            ),
            "memory, store in memory": row(
                resident[f"memory {SMALL_FLEET}"], resident[f"memory {large}"]
            ),
            "disk, SQLite file": row(disk[SMALL_FLEET], disk[large]),
        },
    )
