"""Small reads that share visits to the store: when a fleet starts, all machines ask at once."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import islice
from typing import Generic, TypeVar

from fairwarning.core.errors import Unavailable
from fairwarning.store import lanes

_VISITS = 2  # at once: a connection that is silent does not hold up all others

K = TypeVar("K")
V = TypeVar("V")


class SharedVisits(Generic[K, V]):
    """Reads values by key; whoever asks during visits shares the next visit."""

    def __init__(
        self, visit: Callable[[Sequence[K]], Awaitable[Mapping[K, V]]], at_most: int
    ) -> None:
        """`visit` reads up to `at_most` keys, and leaves out those that have no value."""
        self._visit = visit
        self._at_most = at_most
        self._waiting: dict[K, asyncio.Future[V | None]] = {}
        self._visits: set[asyncio.Task[None]] = set()

    async def read(self, key: K) -> V | None:
        """Read a value that is no older than this call; None if there is none."""
        future = self._waiting.get(key)
        if future is None:
            future = self._waiting[key] = asyncio.get_running_loop().create_future()
        if len(self._visits) < _VISITS:
            self._visits.add(asyncio.create_task(self._answer_all(), name="shared visits"))
        return await asyncio.shield(future)

    async def _answer_all(self) -> None:
        task = asyncio.current_task()
        assert task
        try:
            with lanes.reads_lane(taken=False):  # whoever asked first: machines may wait for it
                while keys := list(islice(self._waiting, self._at_most)):
                    await self._answer({key: self._waiting.pop(key) for key in keys})
        finally:
            self._visits.discard(task)  # in this turn: whoever asks from now on needs another

    async def _answer(self, asked: Mapping[K, "asyncio.Future[V | None]"]) -> None:
        keys = list(asked)
        try:
            values = await self._visit(keys)
        except Exception as error:  # noqa: BLE001  (it is for those who asked)
            if len(keys) == 1 or isinstance(error, Unavailable):
                for future in asked.values():
                    future.set_exception(error)
                return
            half = len(keys) // 2  # one that cannot be read stops no other (IB1)
            await self._answer({key: asked[key] for key in keys[:half]})
            await self._answer({key: asked[key] for key in keys[half:]})
        else:
            for key, future in asked.items():
                future.set_result(values.get(key))
