"""A small service to be killed: `python -m tests.machines.command_service FOLDER SCRIPT`.

It asks for the reboot of one machine, unless an earlier life has, and says how that went.
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

LOOK_SECONDS = 0.02


async def main(folder: Path, script: str) -> None:
    """Until the operation is over."""
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
        await asyncio.sleep(LOOK_SECONDS)
    await driver.close()
    await fleet.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
