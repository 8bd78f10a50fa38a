"""Growth: with retention, neither files nor memory grow from the second month on."""

import asyncio
import gc
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fairwarning.core.commands import CreateScope, Delete, StartRollout
from fairwarning.core.model import Impact, ImpactKind, Machine, Rollout, RolloutStatus, ScopeKind
from fairwarning.machines.driver import Report
from fairwarning.service.clock import VirtualClock
from fairwarning.service.config.settings import JournalSettings, OperationSettings
from fairwarning.service.fleet import Fleet
from fairwarning.service.retention import Retention
from fairwarning.store.memory import MemoryStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Batch, Store
from tests.campaigns import split
from tests.fixtures.fleet import NOON, standalone

DAY_SECONDS = 24 * 3600.0
MONTH_DAYS = 30
DOMAINS = 5
IMPACT_SECONDS = 60.0
_SCOPE_MACHINES = 100
_SAMPLE_DAYS = 5
NOISE_BLOCKS = 1000  # of the interpreter itself; an operation that is kept takes about ten
NOISE_BYTES = 64 * 1024


class TogetherDriver:
    """Reports all impacts of a step at once, so that their commands share a transaction."""

    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock
        self._waiting: list[tuple[Impact, Report]] = []

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Report success after a minute."""
        if not self._waiting:
            self._clock.call_at(self._clock.now() + IMPACT_SECONDS, self._report_all)
        self._waiting.append((impact, report))

    def _report_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for impact, report in waiting:
            report(impact, "")


@dataclass
class Sizes:
    """The largest sample of each month."""

    by_month: dict[int, int] = field(default_factory=dict)

    def add(self, day: int, size: int) -> None:
        month = day // MONTH_DAYS
        self.by_month[month] = max(size, self.by_month.get(month, 0))

    def are_flat(self, noise: int) -> bool:
        """Whether no month exceeds the second by more than a twentieth and some noise."""
        later = [size for month, size in self.by_month.items() if month > 1]
        return len(later) > 0 and max(later) <= 1.05 * self.by_month[1] + noise


class Soak:
    """A fleet that is maintained every day. Lines are kept for 21 days, operations for 7."""

    def __init__(self, store: Store, machines: int, folder: Path) -> None:
        self.clock = VirtualClock(NOON)
        self.fleet = Fleet(store, self.clock, TogetherDriver(self.clock))
        self.files = Sizes()
        self.memory = Sizes()
        self.rows = Sizes()
        self._retention = Retention(
            self.fleet, JournalSettings(keep_days=21), OperationSettings(keep_days=7)
        )
        self._folder = folder
        self._machines = machines
        self._scopes: list[str] = []
        self._blocks = 0

    async def run(self, days: int) -> None:
        """Run the fleet for some days, and take samples."""
        await self.fleet.start()
        await self._create()
        self._blocks = _allocated_blocks()
        for day in range(days):
            await self._live(day)
            if day % _SAMPLE_DAYS == 0:
                await self._sample(day)
        await self.fleet.stop()

    async def _create(self) -> None:
        for first in range(0, self._machines, _SCOPE_MACHINES):
            name = f"set-{first}"
            members = tuple(
                Machine(name=f"{name}-{n}", update_domain=n % DOMAINS)
                for n in range(min(_SCOPE_MACHINES, self._machines - first))
            )
            kind = ScopeKind.AVAILABILITY_SET
            await self.fleet.submit(CreateScope(scope=name, kind=kind, machines=members))
            self._scopes.append(name)

    async def _live(self, day: int) -> None:
        """Poll, maintain every machine, and create and delete a machine and a cursor."""
        fleet = self.fleet
        for scope in self._scopes:
            await fleet.poll(scope)
        await fleet.submit(standalone(f"job-{day}"))
        await fleet.submit(
            Delete(scope=f"job-{day}", operation=f"delete-{day}", machines=(f"job-{day}",))
        )
        name = f"rollout-{day}"
        await fleet.submit(
            StartRollout(
                rollout=name, scopes=tuple(self._scopes), kind=ImpactKind.REBOOT, batch=100
            )
        )
        await fleet.store.commit(Batch(self.clock.now(), notes={f"webhook:removed-{day}": "1"}))
        await fleet.advance(DAY_SECONDS)
        rollout = await fleet.reader.read(Rollout, name)
        assert rollout is not None
        assert (rollout.status, rollout.done) == (RolloutStatus.DONE, self._machines)
        await self._retention.drop_old()

    async def _sample(self, day: int) -> None:
        self.rows.add(day, await _count_rows(self.fleet.store))
        self.files.add(day, sum(file.stat().st_size for file in self._folder.iterdir()))
        self.memory.add(day, _allocated_blocks() - self._blocks)


async def _count_rows(store: Store) -> int:
    """The number of entities and notes, with what is left of removed entities."""
    notes = len(await store.list_notes("", "", 1_000_000))
    if isinstance(store, MemoryStore):
        return notes + len(store._entities) + len(store._removed)
    assert isinstance(store, SQLiteStore)
    query = "SELECT count(*) FROM entity"
    return notes + int(
        await store._read(lambda connection: connection.execute(query).fetchone()[0])
    )


def _allocated_blocks() -> int:
    """The number of objects and small buffers that the interpreter has allocated."""
    gc.collect()
    return sys.getallocatedblocks()


@pytest.mark.parametrize(
    ("file", "days", "machines"),
    split([("fleet.db", 90, 8), ("", 90, 8), ("", 365, 200), ("fleet.db", 365, 1000)], 1),
)
def test_daily_rollouts_do_not_grow_files_or_memory(
    file: str, days: int, machines: int, tmp_path: Path
) -> None:
    """Every day all machines are maintained, and a machine and a webhook come and go."""
    store = SQLiteStore(tmp_path / file, reserved_bytes=4096) if file else MemoryStore()
    soak = Soak(store, machines, tmp_path)
    asyncio.run(soak.run(days))
    assert soak.rows.are_flat(0), soak.rows
    assert soak.files.are_flat(NOISE_BYTES), soak.files
    assert soak.memory.are_flat(NOISE_BLOCKS), soak.memory
