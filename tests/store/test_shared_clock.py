"""The time that all processes share, when the database's clock is stepped (E11).

A test cannot step the clock of PostgreSQL. It changes what is stored about that clock instead,
which looks the same to the processes.
"""

import asyncio
import os
import random
import time
from itertools import pairwise

import pytest

from fairwarning.core.errors import Unavailable
from fairwarning.core.model import Event, EventStatus, EventType, Scope, Source
from fairwarning.core.record import changed
from fairwarning.service.clock import RealClock
from fairwarning.service.clock_monitor import ClockMonitor
from fairwarning.store.elapsed_time import elapsed_time
from fairwarning.store.postgres import shared_clock
from fairwarning.store.postgres.connections import Connection
from fairwarning.store.postgres.shared_clock import SharedClock
from fairwarning.store.postgres.statements import execute
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.sql_reads import Row
from fairwarning.store.store import Batch, ClockReading, Heartbeat
from tests.fixtures.waiting import LIMIT_SECONDS
from tests.store.test_shared import A, impact, on_two_stores, renewing, scope

pytestmark = pytest.mark.spec("E11", "X1")

HOUR = 3600.0
STEPS = pytest.mark.parametrize("step", [-HOUR, HOUR])
PRECISE = shared_clock._PRECISE_SECONDS
SLOW = 10.0  # seconds that a busy machine may take
_EVENT = Event(
    id="E", type=EventType.REBOOT, status=EventStatus.SCHEDULED, source=Source.USER,
    resources=("m",), created_at=1.0, not_before=901, operation="o",
)  # fmt: skip
NOTICED: Scope = changed(scope(), events={"E": _EVENT})


async def _execute(store: PostgresStore, statement: str) -> None:
    async with store._connections.acquire() as connection:
        await connection.execute(statement.encode())


async def _step(store: PostgresStore, seconds: float) -> None:
    """Make the database's clock look stepped."""
    change = f"read_at = read_at - {seconds}, shift = shift + {seconds}"
    await _execute(store, f"UPDATE fleet_clock SET {change}")


async def _next_reading(heartbeats: "asyncio.Queue[Heartbeat]") -> ClockReading:
    while not heartbeats.empty():
        heartbeats.get_nowait()
    async with asyncio.timeout(LIMIT_SECONDS):
        while (reading := (await heartbeats.get()).clock) is None:
            pass
    return reading


def _offset(reading: ClockReading) -> float:
    return (reading.least + reading.most) / 2


def _now(reading: ClockReading) -> float:
    return reading.at + reading.least


@STEPS
@on_two_stores
async def test_a_process_that_starts_right_after_a_step_waits_for_the_others(
    first: PostgresStore, second: PostgresStore, step: float
) -> None:
    """It cannot tell a step from time without processes; a running process can."""
    await first.commit(Batch(1.0, impacts=[impact("i")]))
    await second.close()
    async with renewing(first) as heartbeats:
        before = await _next_reading(heartbeats)
        await _step(first, step)
        await second.open()
        assert abs(_offset(await second.shared.read_clock()) - _offset(before)) < SLOW


@pytest.mark.parametrize("is_promised", [False, True])
@on_two_stores
async def test_time_without_processes(
    first: PostgresStore, second: PostgresStore, *, is_promised: bool
) -> None:
    """It may have been a step of the database's clock: it counts only if nothing is promised."""
    if is_promised:
        await first.commit(Batch(1.0, {A: (None, NOTICED)}))
    before = await first.shared.read_clock()
    await _execute(first, f"UPDATE fleet_clock SET read_at = read_at - {HOUR}")
    await first.close()
    await second.close()
    await first.open()
    reading = await first.shared.read_clock()
    assert abs(_now(reading) - (_now(before) - HOUR if is_promised else time.time())) < SLOW
    assert abs(reading.ahead - (-HOUR if is_promised else 0)) < SLOW


@pytest.mark.parametrize("pauses", [1, 20])
@on_two_stores
async def test_a_step_counts_what_the_process_has_counted(
    first: PostgresStore, second: PostgresStore, pauses: int
) -> None:
    """Not the whole gap, and not nothing: what passed since this process read the clock."""
    await first.commit(Batch(1.0, {A: (None, NOTICED)}))
    started = await first.shared.read_clock()
    reading = started
    for _ in range(pauses):
        await _step(first, HOUR)
        reading = await first.shared.read_clock()
    counted = _now(reading) - _now(started)
    assert 0 <= counted <= reading.at - started.at + 0.001


@on_two_stores
async def test_a_clock_that_is_turned_back_while_all_are_down(
    first: PostgresStore, second: PostgresStore
) -> None:
    """The shared time never runs backwards."""
    before = await first.shared.read_clock()
    await first.close()
    await _step(second, -HOUR)
    await second.close()
    await first.open()
    assert _now(await first.shared.read_clock()) >= _now(before)


@STEPS
@on_two_stores
async def test_a_step_ends_no_lease(
    first: PostgresStore, second: PostgresStore, step: float
) -> None:
    """What a running process holds is not taken over."""
    async with renewing(first), renewing(second) as theirs:
        await first.commit(Batch(1.0, impacts=[impact("i")]))
        await _step(first, step)
        for _ in range(3):
            await _next_reading(theirs)
            assert await second.unfinished_impacts("", 10) == []


@on_two_stores
async def test_a_step_back_keeps_no_lease_alive(
    first: PostgresStore, second: PostgresStore
) -> None:
    """What an ended process held is taken over after its lease, not an hour later."""
    await second.commit(Batch(1.0, impacts=[impact("i")]))
    async with renewing(first) as heartbeats:
        await _step(first, -HOUR)
        async with asyncio.timeout(LIMIT_SECONDS):
            while not (await heartbeats.get()).orphaned_impacts:
                pass


@pytest.mark.parametrize("ahead", [-2.0, 2.0])
@on_two_stores
async def test_the_shared_time_returns_to_the_databases_clock(
    first: PostgresStore, second: PostgresStore, ahead: float
) -> None:
    """While nothing is pending; it does not jump."""
    await _execute(first, f"UPDATE fleet_clock SET shift = {ahead}")
    async with renewing(first) as heartbeats:
        readings = [await _next_reading(heartbeats)]
        async with asyncio.timeout(LIMIT_SECONDS):
            while abs(readings[-1].ahead) > 0.01:
                readings.append(await _next_reading(heartbeats))
    assert abs(readings[0].ahead) <= 2
    for earlier, later in pairwise(readings):
        assert _now(earlier) <= _now(later)
        assert abs(later.ahead) <= abs(earlier.ahead)


@on_two_stores
async def test_a_pending_notice_keeps_the_difference(
    first: PostgresStore, second: PostgresStore
) -> None:
    """Each second of a notice is a second."""
    await first.commit(Batch(1.0, {A: (None, NOTICED)}))
    await _execute(first, "UPDATE fleet_clock SET shift = -5")
    async with renewing(first) as heartbeats:
        assert [(await _next_reading(heartbeats)).ahead for _ in range(2)] == [-5, -5]
    await first.commit(Batch(1.0, {A: (NOTICED, scope(2))}))
    async with renewing(first) as heartbeats:
        assert (await _next_reading(heartbeats)).ahead > -5


class SlowResponses:
    """Delays the responses to the next readings of the clock, as on a busy machine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        monkeypatch.setattr(shared_clock, "execute", self._execute)

    async def _execute(self, connection: Connection, query: str, **values: object) -> list[Row]:
        rows = await execute(connection, query, **values)
        self.left -= 1
        if self.left >= 0:
            await asyncio.sleep(1.2 * PRECISE)
        return rows


@on_two_stores
async def test_a_process_begins_once_it_knows_the_time(
    first: PostgresStore, second: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """IK4: it reads on while readings are slow, for a while. Later ones may be slow."""
    responses = SlowResponses(monkeypatch)
    monkeypatch.setattr(shared_clock, "_SLOW_SECONDS", LIMIT_SECONDS)
    await first.close()
    responses.left = 6
    await first.open()
    begun = await first.shared.read_clock()
    assert begun.most - begun.least <= PRECISE
    responses.left = 1
    async with first._connections.acquire() as connection:
        slow = await first.shared._clock.advance(connection)
    assert slow.at - begun.at > PRECISE
    assert slow.most - slow.least < 1.1 * PRECISE
    await first.close()
    responses.left = 6
    monkeypatch.setattr(shared_clock, "_SLOW_SECONDS", 0)
    with pytest.raises(Unavailable) as failed:
        await first.open()
    assert failed.value.code == "StoreSlow"


def test_a_process_that_does_not_know_the_time_says_so() -> None:
    """IK4: as its part `clock`, until a reading is precise; that one corrects it at once."""
    clock = RealClock()
    monitor = ClockMonitor(clock, "the database's clock")
    problems = []
    for least, most in ((HOUR - 1, HOUR + 1), (HOUR - 2, HOUR + 2), (HOUR + 0.7, HOUR + 0.8)):
        clock.synchronize(ClockReading(least, most, 0.0, elapsed_time()))
        problems.append(monitor.health().problem)
    assert "only known to within 1.0 s" in problems[0]
    assert problems[0] != problems[1] != ""
    assert problems[2] == ""
    assert abs(clock.now() - elapsed_time() - HOUR - 0.7) < 0.1


SEQUENCES = int(os.environ.get("FAIRWARNING_CLOCK_SEQUENCES", "30"))
_VIRTUAL_TIME = """
CREATE TABLE virtual_time (now double precision);
INSERT INTO virtual_time VALUES (0);
CREATE FUNCTION clock_timestamp() RETURNS timestamptz STABLE LANGUAGE sql AS
    'SELECT to_timestamp(now) FROM fairwarning.virtual_time';
SET search_path = fairwarning, pg_catalog;
"""


@on_two_stores
async def test_random_sequences(
    first: PostgresStore, second: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps, restarts of any process, pauses: the time counts no more than has passed.

    The processes are clocks on one connection; its database has the clock of the test. A pause may
    hide a step back.
    """
    await first.commit(Batch(1.0, {A: (None, NOTICED)}))
    true = 0.0
    monkeypatch.setattr("fairwarning.store.postgres.shared_clock.elapsed_time", lambda: true)
    connection = await first._connections.connect()
    await connection.execute(_VIRTUAL_TIME.encode())
    for seed in range(SEQUENCES):
        draw = random.Random(seed)
        shift = 1.8e9 - true
        await _set_clock(connection, true + shift)
        processes = [SharedClock(first._connections) for _ in range(3)]
        least = (await processes[0].advance(connection)).least
        for _ in range(12):
            process = draw.choice(processes)
            true += draw.choice((0.0, 0.3, 1.9, 4.0, 30.0, 5000.0))
            if draw.random() < 0.4:
                shift += draw.choice((-2.6e6, -3600, -61, -29, -3, 3, 29, 61, 3600, 2.6e6))
            for ended in draw.choice(([], [], [process], processes)):
                ended.start()
            await connection.execute(b"UPDATE virtual_time SET now = %s", (true + shift,))
            offset = (await process.advance(connection)).least
            assert offset <= least + 1e-5, f"seed {seed}: {offset - least:.3f} s were lost"
            least = offset
    await connection.close()


@on_two_stores
async def test_a_call_from_before_a_pause_of_the_database(
    first: PostgresStore, second: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is carried out after the pause, with a proof of that time, and takes none from others."""
    await first.commit(Batch(1.0, {A: (None, NOTICED)}))
    true = 100.0
    monkeypatch.setattr("fairwarning.store.postgres.shared_clock.elapsed_time", lambda: true)
    connection = await first._connections.connect()
    await connection.execute(_VIRTUAL_TIME.encode())
    await _set_clock(connection, 1.8e9)
    processes = [SharedClock(first._connections) for _ in range(2)]
    before = [await process.advance(connection) for process in processes * 2][-2]
    late = {"proven": before.least + true, "line": processes[0]._line, "answer": None}
    true += 25
    await connection.execute(b"UPDATE virtual_time SET now = %s", (1.8e9 + 25,))
    for _ in range(2):
        await execute(connection, "advance_clock", **late)
    for process in processes:
        assert (await process.advance(connection)).least == pytest.approx(before.least, abs=0.01)
    await connection.close()


async def _set_clock(connection: Connection, now: float) -> None:
    await connection.execute(b"UPDATE virtual_time SET now = %s", (now,))
    await connection.execute(b"UPDATE fleet_clock SET shift = 0, read_at = %s", (now,))
