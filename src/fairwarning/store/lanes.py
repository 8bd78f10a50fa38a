"""The two lanes to a store: reads never delay writes (IB3).

The first lane is for everything that a promise depends on, and the default: commits, loads for
decisions, due work, polls, the clock, leases, tokens and their revocation, machines that ask who
they are, webhooks, retention. The reads lane is for requests of the console, its page and Azure's
API that change nothing. On SQLite they visit the store one at a time, while the first lane has no
work. On PostgreSQL each lane has connections of its own.

The lane belongs to the request, not to the method: `load` is in both. It is a context variable, so
code that does not know of lanes takes the first one and is never refused.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_reading: ContextVar[bool] = ContextVar("reading", default=False)


def is_reading() -> bool:
    """Whether this task takes the reads lane."""
    return _reading.get()


@contextmanager
def reads_lane(*, taken: bool = True) -> Iterator[None]:
    """Take the reads lane; or the first lane, for a write inside a request that reads."""
    token = _reading.set(taken)
    try:
        yield
    finally:
        _reading.reset(token)
