"""Clients for machines of many scopes of a large fleet, in a separate process.

Machines are named by their numbers: of 1,000,000 those `range(first, last, step)`.
"""

import asyncio
import time
from collections.abc import Sequence

from fairwarning.metadata.callers import loopback_address
from tests.bench.clients import connect, flood, idle, poll
from tests.bench.measure import times_ms
from tests.bench.processes import most_descriptors, resident_bytes

_AT_ONCE = 32  # concurrent connections


def addresses(numbers: Sequence[int]) -> list[str]:
    """The addresses of these machines."""
    candidates = map(loopback_address, numbers)
    return [address for address in candidates if address]


async def one_by_one(numbers: Sequence[int], port: int) -> dict[str, float]:
    """Each machine polls once on its own connection, one after the other."""
    laps = [await _ask(address, port) for address in addresses(range(*numbers))]
    return times_ms(laps)


async def each_once(numbers: Sequence[int], port: int, pid: int) -> dict[str, float]:
    """Each machine polls once, many at a time; return the server's memory per machine."""
    before, asking = resident_bytes([pid]), addresses(range(*numbers))
    left = iter(asking)

    async def ask() -> None:
        for address in left:
            await _ask(address, port)

    await asyncio.gather(*(ask() for _ in range(_AT_ONCE)))
    await idle(pid)  # the server is still writing the polls
    return {"bytes a machine": (resident_bytes([pid]) - before) / len(asking)}


async def together(
    numbers: Sequence[int], port: int, seconds: float, pids: Sequence[int], times: int = 1
) -> dict[str, float]:
    """Each machine polls without pauses on several connections; see `flood`."""
    most_descriptors()
    return await flood(addresses(range(*numbers)) * times, port, seconds, pids)


async def _ask(address: str, port: int) -> float:
    """Seconds from before the connection to the response."""
    began = time.perf_counter()
    client = await connect(address, port)
    await client.ask(poll(address))
    client.transport.close()
    return client.answered - began
