"""The environment of deliveries: real time, random numbers and DNS.

Deliveries do not use the fleet's clock: advancing virtual time does not repair a receiver.
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
    """The real environment, unless a test replaces parts of it."""

    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    monotonic: Callable[[], float] = time.monotonic
    wall_time: Callable[[], float] = time.time
    rng: random.Random = field(default_factory=random.Random)
    resolve: Resolve = look_up
    connect_seconds: float = limits.CONNECT_SECONDS
    request_seconds: float = limits.REQUEST_SECONDS
