"""A small service that tests kill: `python -m tests.machines.command_service FOLDER SCRIPT`.

It requests the reboot of one machine, unless an earlier process did, and prints the result.
"""

import asyncio
import sys
from pathlib import Path

from fairwarning.core.commands import CreateScope, Restart
from fairwarning.core.model import Machine, Operation, OperationStatus, ScopeKind
from fairwarning.machines.command.driver import CommandDriver
from fairwarning.service.clock import RealClock
from fairwarning.service.fleet import Fleet
from fairwarning.store.sqlite import SQLiteStore

POLL_SECONDS = 0.02


async def main(folder: Path, script: str) -> None:
    """Run until the operation has finished."""
    driver = CommandDriver(["sh", "-c", script, str(folder)], state=folder / "state")
    fleet = Fleet(SQLiteStore(folder / "data"), RealClock(), driver)
    await fleet.start()
    if await fleet.reader.read(Operation, "restart") is None:
        machines = (Machine(name="web_0"),)
        await fleet.submit(CreateScope(scope="web", kind=ScopeKind.STANDALONE, machines=machines))
        await fleet.submit(Restart(scope="web", operation="restart", machines=("web_0",)))
    while (operation := await fleet.reader.read(Operation, "restart")) is not None:
        if operation.status is not OperationStatus.RUNNING:
            sys.stdout.write(f"{operation.status} {operation.error}\n")
            break
        await asyncio.sleep(POLL_SECONDS)
    await driver.close()
    await fleet.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
