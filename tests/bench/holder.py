"""Our service in a program that changes a document on a signal.

`python -m tests.bench.holder FOLDER PORT` serves FOLDER/fleet.toml as `fairwarning up` does. At
SIGUSR1 it restarts a machine, as an operator would, and prints how that went.
"""

import asyncio
import gc
import json
import signal
import sys
import time
from pathlib import Path

from fairwarning.cli.commands import up
from fairwarning.core.commands import Restart
from fairwarning.server.options import ServerOptions
from fairwarning.server.wiring import ServerProcess
from fairwarning.service.config import fleet_file
from fairwarning.store.store import Batch
from tests.bench import fleets
from tests.bench.processes import most_descriptors

SCOPE = "held"
_MACHINE = "held_0"


async def serve(folder: Path, port: int) -> None:
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
        await local.fleet.poll(SCOPE)
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
    await local.fleet.submit(Restart(scope=SCOPE, operation="change", machines=(_MACHINE,)))
    return {"held": held, "durable": durable, "acknowledged": time.perf_counter()}


def main() -> None:
    """Serve on the event loop that the service uses."""
    most_descriptors()
    folder, port = sys.argv[1:]
    with fleets.runner() as loop:
        loop.run(serve(Path(folder), int(port)))


if __name__ == "__main__":
    main()
