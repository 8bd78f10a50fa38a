"""Long polls: the cost of holding one, and the delay until all have the new document.

python -m tests.bench.longpolls FOLDER PORT

is our service in a program that changes a document on a signal: it serves FOLDER/fleet.toml as
`fairwarning up` does, and at SIGUSR1 it restarts a machine, as an operator would, and prints how
that went.
"""

import asyncio
import gc
import json
import signal
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from fairwarning.cli.commands import up
from fairwarning.core.commands import Restart
from fairwarning.server.options import ServerOptions
from fairwarning.server.wiring import ServerProcess
from fairwarning.service.config import fleet_file
from fairwarning.store.store import Batch
from tests.bench import contenders, fleets, load
from tests.bench.clients import hold
from tests.bench.contenders import GO, NGINX, OURS, Recipe, running
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result, Target, described
from tests.bench.measure import MICRO
from tests.bench.processes import most_descriptors

_OTHER_DESCRIPTORS = 100
_KIBI = 1 << 10
_SCOPE, _MACHINE = "held", "held_0"
_MEMORY = "KiB each"
_LAST = "all, ms"
_DOCUMENT = (  # about as long as the document with a restart
    b'{"DocumentIncarnation":2,"Events":[{"EventId":"00000000-0000-0000-0000-000000000000",'
    b'"EventStatus":"Scheduled","EventType":"Reboot","ResourceType":"VirtualMachine",'
    b'"Resources":["held_0"],"NotBefore":"Fri, 09 Jan 2026 12:15:00 GMT","Description":"Restart",'
    b'"EventSource":"User","DurationInSeconds":-1}]}'
)
_AT_MOST = {_MEMORY: 10.0, _LAST: 500.0}


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    held = min(context.effort.held, most_descriptors() - _OTHER_DESCRIPTORS)
    ours = contenders.holder(context)
    peers, missing = contenders.peers(context, ours.addresses, _DOCUMENT)
    recipes = [ours, *(peer for peer in peers if peer.name != NGINX)]
    rows = context.medians(
        {recipe.name: partial(_round, context, recipe, held) for recipe in recipes}
    )
    notes = [note for note in missing if NGINX not in note]
    if held < context.effort.held:
        limit = "The limit on open files allows only"
        notes.insert(0, f"{limit} {held:,} here, not {context.effort.held:,}.")
    return Result(
        *described("longpolls", held=held, machines=contenders.SCALE_SET, peer=GO),
        rows=rows,
        targets=tuple(
            Target(f"{held:,} held long polls: {column}", rows[OURS][column], bound, at_least=False)
            for column, bound in _AT_MOST.items()
        ),
        notes=notes,
    )


def _round(context: BenchmarkContext, recipe: Recipe, held: int) -> dict[str, float]:
    with running(recipe) as server:
        (pid,) = server.process.pids()
        asking = list(server.addresses)
        measured = load.probe(context, hold, server, asking=asking, held=held, pid=pid)
        reported = json.loads(server.process.line()) if recipe.tells else None
    return _row(measured, reported, held)


def _row(
    measured: Mapping[str, float], reported: Mapping[str, float] | None, held: int
) -> dict[str, float]:
    """The delays that clients saw after the change of the document."""
    assert reported is None or reported["held"] == held, reported
    since = reported["durable"] if reported else measured["changed_at"]
    row = {
        _MEMORY: measured["memory"] / held / _KIBI,
        "CPU µs to answer": measured["cpu"] / held * MICRO,
        "first, ms": (measured["first"] - since) * 1e3,
        "half, ms": (measured["middle"] - since) * 1e3,
        _LAST: (measured["last"] - since) * 1e3,
    }
    if reported:
        row["acknowledged, ms"] = (reported["acknowledged"] - since) * 1e3
    return row


# --- The service ----------------------------------------------------------------------------------


async def _serve(folder: Path, port: int) -> None:
    """Serve until SIGTERM."""
    signalled, stopped = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, signalled.set)
    loop.add_signal_handler(signal.SIGTERM, stopped.set)
    fleet = fleet_file.read((folder / "fleet.toml").read_text("utf-8"))
    any_port = ("127.0.0.1", 0)
    options = ServerOptions(
        folder / "data", fleet, metadata=("127.0.0.1", port), console=any_port, arm=any_port
    )
    async with ServerProcess(options).running() as local:
        await local.fleet.poll(_SCOPE)
        gc.collect()
        gc.freeze()
        gc.set_threshold(*up._GC_THRESHOLDS)
        print("up", flush=True)
        await signalled.wait()
        print(json.dumps(await _change(local)), flush=True)
        await stopped.wait()


async def _change(local: ServerProcess) -> dict[str, float]:
    """Restart a machine; return the held requests and the times of commit and acknowledgement."""
    durable = 0.0
    commit = local.fleet.store.commit

    async def stamped(batch: Batch) -> float | None:
        nonlocal durable
        due = await commit(batch)
        durable = durable or time.perf_counter()
        return due

    local.fleet.store.commit = stamped  # type: ignore[method-assign]
    held = local.server.counts.held
    await local.fleet.submit(Restart(scope=_SCOPE, operation="change", machines=(_MACHINE,)))
    return {"held": held, "durable": durable, "acknowledged": time.perf_counter()}


if __name__ == "__main__":
    most_descriptors()
    with fleets.runner() as loop:
        loop.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))
