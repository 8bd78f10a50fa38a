"""A handler that uses the asynchronous client of the SDK."""

import asyncio

from fairwarning import AsyncScheduledEvents, Phase


async def main() -> None:
    """Approve every event of this machine alone."""
    async with AsyncScheduledEvents() as client:
        me = await client.me()
        async for change in client.watch():
            print(f"{change.event.type} is {change.phase}", flush=True)  # noqa: T201  (its log)
            if change.phase is Phase.SCHEDULED and change.event.concerns_only(me):
                await client.approve(change.event)


asyncio.run(main())
