"""What deliveries need of the world outside: real time, chance, names of hosts.

Not the fleet's clock: a receiver that is down does not come back sooner because virtual time ran.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from fairwarning.service.webhooks import limits
from fairwarning.service.webhooks.targets import Resolve, look_up


@dataclass(frozen=True, slots=True)
class Environment:
    """The real world, unless a test gives another."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    steady: Callable[[], float] = time.monotonic
    wall: Callable[[], float] = time.time
    chance: random.Random = field(default_factory=random.Random)
    resolve: Resolve = look_up
    connect_seconds: float = limits.CONNECT_SECONDS
    whole_seconds: float = limits.WHOLE_SECONDS
