import asyncio
from collections.abc import Sequence

import pytest

from fairwarning.core.errors import Unavailable
from fairwarning.service.shared_visits import SharedVisits
from fairwarning.store import lanes
from tests.fixtures.waiting import LIMIT_SECONDS


class _Visits:
    """Visits that wait until they are allowed; the value of a key is its square."""

    def __init__(self) -> None:
        self.allowed = asyncio.Event()
        self.keys: list[list[int]] = []
        self.fails: dict[int, Exception] = {}  # by key
        self.reading = False

    async def __call__(self, keys: Sequence[int]) -> dict[int, int]:
        self.keys.append(list(keys))
        self.reading |= lanes.is_reading()
        await self.allowed.wait()
        for key in keys:
            if key in self.fails:
                raise self.fails[key]
        return {key: key * key for key in keys if key > 0}


def _read(reads: "SharedVisits[int, int]", *keys: int) -> "list[asyncio.Task[int | None]]":
    return [asyncio.create_task(reads.read(key)) for key in keys]


async def _answers(
    asked: "Sequence[asyncio.Task[int | None]]",
) -> list[int | BaseException | None]:
    return await asyncio.gather(*asked, return_exceptions=True)


async def test_many_reads_take_few_visits() -> None:
    """Whoever asks twice is answered once, and a visit has a limited number of keys."""
    visit = _Visits()
    visit.allowed.set()
    asked = _read(SharedVisits(visit, 3), 1, 2, 3, 4, 5, 0, 2)
    assert await _answers(asked) == [1, 4, 9, 16, 25, None, 4]
    assert visit.keys == [[1, 2, 3], [4, 5, 0]]


async def test_what_is_read_is_no_older_than_the_question() -> None:
    """Whoever asks while a visit is under way gets the result of a later one."""
    visit = _Visits()
    reads = SharedVisits(visit, 3)
    first = _read(reads, 1)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert visit.keys == [[1]]
    second = _read(reads, 1)
    await asyncio.sleep(0)
    visit.allowed.set()
    assert await _answers(first + second) == [1, 1]
    assert visit.keys == [[1], [1]]


async def test_who_asks_as_the_last_visits_end_is_answered() -> None:
    """The visits are over, but their tasks have not been cleaned up yet."""
    later: list[asyncio.Task[int | None]] = []

    async def visit(keys: Sequence[int]) -> dict[int, int]:
        if not later:
            later.extend(_read(reads, 3))
        return {key: key * key for key in keys}

    reads = SharedVisits(visit, 9)
    assert await _answers(_read(reads, 1, 2)) == [1, 4]
    await asyncio.wait(later, timeout=LIMIT_SECONDS)
    assert await _answers(later) == [9]


async def test_one_that_cannot_be_read_stops_no_other() -> None:
    """IB1: nor does one whose caller is gone."""
    visit = _Visits()
    visit.fails[3] = ValueError("no such thing")
    reads = SharedVisits(visit, 9)
    asked = _read(reads, 1, 2, 3, 4, 5)
    await asyncio.sleep(0)
    asked[1].cancel()
    visit.allowed.set()
    one, _, three, four, five = await _answers(asked)
    assert (one, three, four, five) == (1, visit.fails[3], 16, 25)
    assert await reads.read(2) == 4


async def test_a_store_that_is_unavailable_is_asked_once() -> None:
    """All who asked get the error, and the next one asks again."""
    visit = _Visits()
    visit.allowed.set()
    visit.fails[2] = Unavailable("StoreDown", "later")
    reads = SharedVisits(visit, 9)
    assert await _answers(_read(reads, 1, 2, 3)) == [visit.fails[2]] * 3
    assert len(visit.keys) == 1
    with pytest.raises(Unavailable):
        await reads.read(2)
    visit.fails.clear()
    assert await reads.read(2) == 4


async def test_visits_take_the_first_lane() -> None:
    """IB3: a machine that asks with a reader of the console does not wait for other readers."""
    visit = _Visits()
    visit.allowed.set()
    with lanes.reads_lane():
        assert await SharedVisits(visit, 3).read(2) == 4
    assert not visit.reading
