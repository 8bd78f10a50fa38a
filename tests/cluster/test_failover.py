"""The primary is killed under load, and a synchronous standby takes over."""

import asyncio
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fairwarning.core.commands import CreateScope, Redeploy
from fairwarning.core.model import Machine, ScopeKind
from tests.cluster import witness
from tests.cluster.acts import acts
from tests.cluster.cluster import Cluster, Nursery, until
from tests.cluster.history import History
from tests.cluster.judge import acknowledged, acts_once, kept
from tests.cluster.load import QUICK
from tests.cluster.record import Record
from tests.cluster.run import SETTLING_SECONDS, prepare, settle
from tests.cluster.worker import Setting
from tests.fixtures.postgres.pair import Pair
from tests.fixtures.postgres.programs import NoPostgreSQL
from tests.fixtures.postgres.server import shared

ROUNDS = 2
COMMANDS_A_SECOND = 200
BEFORE_SECONDS = 1.0
RESUMED_SECONDS = 10.0


@pytest.fixture(autouse=True, scope="module")
def _there() -> None:
    try:
        shared()
    except NoPostgreSQL as reason:
        pytest.skip(str(reason))


@dataclass(slots=True)
class Traffic:
    """Commands at a steady rate, whether the last ones were answered or not."""

    cluster: Cluster
    history: History = field(default_factory=History)
    count: int = 0
    over: bool = False

    async def run(self) -> None:
        """Send until it is over, and wait for the answers."""
        began, sent = time.monotonic(), 0
        async with asyncio.TaskGroup() as group:
            while not self.over:
                while sent < (time.monotonic() - began) * COMMANDS_A_SECOND:
                    sent += 1
                    group.create_task(self._send())
                await asyncio.sleep(0.005)

    async def _send(self) -> None:
        """A machine comes to be; every other one is then moved, which a driver carries out."""
        self.count += 1
        name = f"alone{self.count}"
        life = self.cluster.present[self.count % len(self.cluster.present)]
        made = CreateScope(
            scope=name,
            kind=ScopeKind.STANDALONE,
            machines=(Machine(name=name),),
            rules=QUICK,
            actor=f"maker-{self.count}",
        )
        done = (await self.history.submit(life, made)).outcome == "done"
        if done and self.count % 2:
            moved = Redeploy(
                scope=name, machines=(name,), operation=f"move-{name}", actor=f"mover-{name}"
            )
            await self.history.submit(life, moved)

    def acknowledged_since(self, moment: float) -> bool:
        """Whether something that was asked since then was done, through each process."""
        done = {
            one.life for one in self.history.asked if one.sent > moment and one.outcome == "done"
        }
        return len(done) == len(self.cluster.present)


async def fail_over(traffic: Traffic, pair: Pair) -> float:
    """One round: how long nothing was acknowledged."""
    await asyncio.sleep(BEFORE_SECONDS)
    killed = time.time()
    await asyncio.to_thread(pair.kill_primary)
    await asyncio.to_thread(pair.promote)
    await until(lambda: traffic.acknowledged_since(killed), "service does not resume")
    return time.time() - killed


async def story(pair: Pair, nursery: Nursery, folder: Path) -> tuple[History, list[float]]:
    """Rounds of failover under load; then everything comes to its end."""
    url = pair.url
    await prepare(url)
    async with Cluster(nursery, Setting("", url, str(folder)), 2) as cluster:
        traffic = Traffic(cluster)
        running = asyncio.create_task(traffic.run())
        took = [await fail_over(traffic, pair)]
        for _ in range(ROUNDS - 1):
            await asyncio.to_thread(pair.rejoin)
            took.append(await fail_over(traffic, pair))
        traffic.over = True
        await running
        await settle(url, SETTLING_SECONDS)
        assert [(await life.ask())["broken"] for life in cluster.present] == ["", ""]
    return traffic.history, took


@pytest.mark.spec("X3", "E9")
def test_nothing_acknowledged_is_lost_and_service_resumes(tmp_path: Path) -> None:
    """IK2: 200 commands a second, the primary killed twice; no process is started again."""
    with Pair() as pair, Nursery() as nursery:
        history, took = asyncio.run(story(pair, nursery, tmp_path))
        batches, tables = witness.look(pair.url)
    record = Record()
    for batch in batches:
        record.committed(batch)
    done = [asked for asked in history.asked if asked.outcome == "done"]
    print(f"{len(done)} of {len(history.asked)} acknowledged; resumed after {took} s")
    for asked in done:
        acknowledged(record, asked)
    record.settled()
    kept(record, tables)
    acts_once(record, acts(tmp_path / "acts"))
    assert max(took) < RESUMED_SECONDS
