"""A real service process to be killed: `python -m tests.webhooks.worker FILE URL REBOOTS`.

It subscribes the URL unless it is, lets one machine reboot so many times, and goes on sending. Each
reboot is an operation with a name, so one that was asked for before is not asked for again.
"""

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from fairwarning.core.commands import Approve, Restart
from fairwarning.core.errors import Refused
from fairwarning.core.model import EventStatus, Scope
from fairwarning.service.clock import VirtualClock
from fairwarning.service.fleet import Fleet
from fairwarning.service.webhooks.targets import AllowedTargets
from fairwarning.service.webhooks.webhooks import WebhookService
from fairwarning.store.sqlite import SQLiteStore
from tests.fixtures.fleet import NOON, standalone
from tests.fixtures.receiver import SECRET
from tests.webhooks.webhook_fleet import ALLOWED, InstantDriver


async def work(path: Path, url: str, reboots: int) -> None:
    """Serve until killed."""
    fleet = Fleet(SQLiteStore(path, reserved_bytes=4096), VirtualClock(NOON), InstantDriver())
    await fleet.start()
    webhooks = WebhookService(fleet, AllowedTargets(ALLOWED))
    await webhooks.start()
    if not await webhooks.list():
        await webhooks.create("ops", url, secret=SECRET, handshake=False)
    if await fleet.reader.read(Scope, "vm") is None:
        await fleet.submit(standalone())
    await fleet.poll("vm")
    for n in range(reboots):
        await quiet(fleet)
        await fleet.submit(Restart(scope="vm", operation=f"restart {n}", machines=("vm",)))
    await quiet(fleet)
    await asyncio.Event().wait()


async def quiet(fleet: Fleet) -> None:
    """Approve what is planned; return once nothing is."""
    while (scope := await fleet.reader.read(Scope, "vm")) and scope.impacts:
        planned = [one.id for one in scope.events.values() if one.status is EventStatus.SCHEDULED]
        for event in planned:
            with suppress(Refused):  # it is over already
                await fleet.submit(Approve(scope="vm", events=(event,)))
        await asyncio.sleep(0)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
