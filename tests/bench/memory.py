"""Memory and disk space per machine at rest."""

import gc
import os
from functools import partial
from statistics import median

from fairwarning.store import codec
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SQLiteStore
from tests.bench import fleets
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result, described
from tests.bench.fleets import SCOPE, SMALL_FLEET
from tests.bench.processes import resident_bytes

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
                ("file", partial(context.probe, resident, path=str(files[size]))),
                ("memory", partial(context.probe, resident, machines=size)),
            )
        }
    )
    sizes_of = {name: median(sizes) for name, sizes in taken.items()}
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
                sizes_of[f"file {SMALL_FLEET}"], sizes_of[f"file {large}"]
            ),
            "memory, store in memory": row(
                sizes_of[f"memory {SMALL_FLEET}"], sizes_of[f"memory {large}"]
            ),
            "disk, SQLite file": row(disk[SMALL_FLEET], disk[large]),
        },
    )


async def resident(path: str = "", machines: int = 0) -> int:
    """Resident bytes of an idle process that has opened a file, or has a fleet in memory."""
    store = SQLiteStore(path) if path else MemoryStore()
    async with fleets.serving(store, fleets.Never()) as fleet:
        await fleets.make(fleet, fleets.scope_names(machines // SCOPE), SCOPE)
        gc.collect()
        return resident_bytes([os.getpid()])
