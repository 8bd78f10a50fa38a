"""Memory and disk space per machine at rest."""

from functools import partial
from statistics import median

from fairwarning.store import codec
from tests.bench import fleets
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result, described
from tests.bench.fleets import SMALL_FLEET

_MEBI = 1 << 20


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    large, more = context.effort.machines, context.effort.machines - SMALL_FLEET
    files = {size: context.fleet(size) for size in (SMALL_FLEET, large)}
    taken = context.in_turn(
        {
            f"{kind} {size}": ask
            for size in files
            for kind, ask in (
                ("file", partial(context.probe, "at_rest", path=str(files[size]))),
                ("memory", partial(context.probe, "in_memory", machines=size)),
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
        *described("memory", size=text),
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
