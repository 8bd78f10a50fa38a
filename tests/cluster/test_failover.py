"""The primary is killed under load, and a synchronous standby takes over."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fairwarning.core.commands import CreateScope, Redeploy
from fairwarning.core.model import Machine, ScopeKind
from tests.cluster import commit_recorder
from tests.cluster.action_log import read_actions
from tests.cluster.checks import check_acknowledged, check_actions, check_tables
from tests.cluster.cluster import Cluster, ForkServer, History
from tests.cluster.committed_state import CommittedState
from tests.cluster.load import QUICK
from tests.cluster.pair import Pair
from tests.cluster.run import SETTLING_SECONDS, prepare, settle
from tests.cluster.worker import WorkerSettings
from tests.fixtures.postgres.database import skip_without_postgres
from tests.fixtures.waiting import on_this_machine, wait_until_async

ROUNDS = 2
COMMANDS_PER_SECOND = 200
BEFORE_SECONDS = 1.0
RESUMED_SECONDS = 10.0


@dataclass(slots=True)
class Traffic:
    """Sends commands at a constant rate, without waiting for answers."""

    cluster: Cluster
    per_second: int
    history: History = field(default_factory=History)
    count: int = 0
    stop: bool = False

    async def run(self) -> None:
        """Send until told to stop, and wait for the answers."""
        began, sent = time.monotonic(), 0
        async with asyncio.TaskGroup() as group:
            while not self.stop:
                while sent < (time.monotonic() - began) * self.per_second:
                    sent += 1
                    group.create_task(self._send())
                await asyncio.sleep(0.005)

    async def _send(self) -> None:
        """Create a machine; redeploy every other one, which the driver executes."""
        self.count += 1
        name = f"alone{self.count}"
        process = self.cluster.processes[self.count % len(self.cluster.processes)]
        create = CreateScope(
            scope=name,
            kind=ScopeKind.STANDALONE,
            machines=(Machine(name=name),),
            rules=QUICK,
            actor=f"maker-{self.count}",
        )
        done = (await self.history.submit(process, create)).outcome == "done"
        if done and self.count % 2:
            redeploy = Redeploy(
                scope=name, machines=(name,), operation=f"move-{name}", actor=f"mover-{name}"
            )
            await self.history.submit(process, redeploy)

    def acknowledged_since(self, moment: float) -> bool:
        """Return whether every process has acknowledged a command sent after a time."""
        processes = {
            submitted.process
            for submitted in self.history.commands
            if submitted.sent > moment and submitted.outcome == "done"
        }
        return len(processes) == len(self.cluster.processes)


@asynccontextmanager
async def under_load(
    url: str, fork_server: ForkServer, folder: Path, per_second: int
) -> AsyncIterator[Traffic]:
    """Traffic through two processes; after it everything finishes, and none has stopped writing."""
    await prepare(url)
    async with Cluster(fork_server, WorkerSettings("", url, str(folder)), 2) as cluster:
        traffic = Traffic(cluster, per_second)
        running = asyncio.create_task(traffic.run())
        yield traffic
        traffic.stop = True
        await running
        await settle(url, SETTLING_SECONDS)
        errors = [(await process.request())["broken"] for process in cluster.processes]
        assert errors == ["", ""]


async def fail_over(traffic: Traffic, pair: Pair) -> float:
    """Kill the primary, promote the standby, and return how long nothing was acknowledged."""
    await asyncio.sleep(BEFORE_SECONDS)
    killed = time.time()
    await asyncio.to_thread(pair.kill_primary)
    await asyncio.to_thread(pair.promote)
    await wait_until_async(lambda: traffic.acknowledged_since(killed), "service resumes")
    return time.time() - killed


async def run_failovers(
    pair: Pair, fork_server: ForkServer, folder: Path
) -> tuple[History, list[float]]:
    """Fail over several times under load."""
    async with under_load(pair.url, fork_server, folder, COMMANDS_PER_SECOND) as traffic:
        took = [await fail_over(traffic, pair)]
        for _ in range(ROUNDS - 1):
            await asyncio.to_thread(pair.rejoin)
            took.append(await fail_over(traffic, pair))
    return traffic.history, took


def check_run(url: str, history: History, folder: Path) -> None:
    """Nothing that was acknowledged is lost, and no impact was carried out twice."""
    batches, tables = commit_recorder.read(url)
    committed = CommittedState()
    for batch in batches:
        committed.add(batch)
    done = [submitted for submitted in history.commands if submitted.outcome == "done"]
    print(f"{len(done)} of {len(history.commands)} acknowledged; {len(committed.began)} impacts")
    for submitted in done:
        check_acknowledged(committed, submitted)
    committed.check_settled()
    check_tables(committed, tables)
    check_actions(committed, read_actions(folder / "actions"))


@pytest.mark.campaign
@pytest.mark.spec("X3", "E9")
def test_nothing_acknowledged_is_lost_and_service_resumes(tmp_path: Path) -> None:
    """IK2: 200 commands per second, the primary killed twice, and no process restarted."""
    skip_without_postgres()
    with Pair() as pair, ForkServer() as fork_server:
        history, took = asyncio.run(run_failovers(pair, fork_server, tmp_path))
        check_run(pair.url, history, tmp_path)
    assert max(took) < on_this_machine(RESUMED_SECONDS), took
