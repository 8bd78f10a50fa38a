"""Clients that are machines from all over a large fleet. They run in a process of their own.

Machines are named by their numbers: of 1,000,000 those `range(first, last, step)`.
"""

import asyncio
import time
from collections.abc import Sequence

from fairwarning.metadata.callers import loopback_address
from tests.bench.clients import connect, flood, idle, poll
from tests.bench.measure import times_ms
from tests.bench.processes import most_descriptors, resident_bytes

_AT_ONCE = 32  # connections that are open together


def addresses(numbers: Sequence[int]) -> list[str]:
    """Where these machines ask."""
    found = map(loopback_address, numbers)
    return [address for address in found if address]


async def one_by_one(numbers: Sequence[int], port: int) -> dict[str, float]:
    """Each asks once on a connection of its own, when the one before has its answer."""
    laps = [await _ask(address, port) for address in addresses(range(*numbers))]
    return times_ms(laps)


async def each_once(numbers: Sequence[int], port: int, pid: int) -> dict[str, float]:
    """Each asks once and is gone, many at a time; what the server then holds for each."""
    before, asking = resident_bytes([pid]), addresses(range(*numbers))
    left = iter(asking)

    async def ask() -> None:
        for address in left:
            await _ask(address, port)

    await asyncio.gather(*(ask() for _ in range(_AT_ONCE)))
    await idle(pid)  # that they have asked is being written
    return {"bytes a machine": (resident_bytes([pid]) - before) / len(asking)}


async def together(
    numbers: Sequence[int], port: int, seconds: float, pids: Sequence[int], times: int = 1
) -> dict[str, float]:
    """Each asks as often as it can, on so many connections each; see `flood`."""
    most_descriptors()
    return await flood(addresses(range(*numbers)) * times, port, seconds, pids)


async def _ask(address: str, port: int) -> float:
    """Seconds until the answer, from before the connection."""
    began = time.perf_counter()
    client = await connect(address, port)
    await client.ask(poll(address))
    client.transport.close()
    return client.answered - began
