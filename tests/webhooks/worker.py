"""A real service process for tests to kill: `python -m tests.webhooks.worker FILE URL REBOOTS`.

It subscribes the URL if needed, reboots one machine that many times, and keeps delivering. Each
reboot is an operation with its own name, so a restart does not repeat it.
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
        await webhooks.create("ops", url, secret=SECRET)
    if await fleet.reader.read(Scope, "vm") is None:
        await fleet.submit(standalone())
    await fleet.poll("vm")
    for n in range(reboots):
        await finish_events(fleet)
        await fleet.submit(Restart(scope="vm", operation=f"restart {n}", machines=("vm",)))
    await finish_events(fleet)
    await asyncio.Event().wait()


async def finish_events(fleet: Fleet) -> None:
    """Approve scheduled events; return once all events have ended."""
    while (scope := await fleet.reader.read(Scope, "vm")) and scope.impacts:
        events = scope.events.values()
        scheduled = [event.id for event in events if event.status is EventStatus.SCHEDULED]
        for event in scheduled:
            with suppress(Refused):  # it has already ended
                await fleet.submit(Approve(scope="vm", events=(event,)))
        await asyncio.sleep(0)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
