"""Processes that share a fleet: each sees the changes of the others and finishes their work."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import quantiles

import pytest

from fairwarning.core.commands import Approve, Cancel, CreateScope, Restart
from fairwarning.core.model import Machine, Rules, ScopeKind
from tests.cluster.action_log import read_actions
from tests.cluster.cluster import Cluster, ForkServer, WorkerProcess
from tests.cluster.load import QUICK
from tests.cluster.run import SETTLING_SECONDS, settle
from tests.cluster.worker import WorkerSettings
from tests.fixtures.waiting import on_this_machine, wait_until_async

CHANGES = 100
# Five and three times what is promised.
VISIBLE_SECONDS = 0.25
TAKEN_OVER_SECONDS = 15.0
MACHINES = tuple(Machine(name=f"web{number}", update_domain=number) for number in range(10))


def run_scenario(
    url: str, folder: Path, size: int, scenario: Callable[[Cluster], Awaitable[None]]
) -> None:
    """Run a scenario on this many processes, with the default lease."""

    async def run(fork_server: ForkServer) -> None:
        async with Cluster(fork_server, WorkerSettings("", url, str(folder)), size) as cluster:
            await scenario(cluster)

    with ForkServer() as fork_server:
        asyncio.run(run(fork_server))


async def create_scope(cluster: Cluster, rules: Rules) -> None:
    """Create a scope that all processes show."""
    kind = ScopeKind.AVAILABILITY_SET
    create = CreateScope(scope="web", kind=kind, machines=MACHINES, rules=rules)
    assert "refused" not in await cluster.processes[0].submit(create)
    for process in cluster.processes:
        await process.request(poll="web")


async def restart(process: WorkerProcess, machine: str, operation: str) -> None:
    """Restart a machine with notice."""
    command = Restart(scope="web", machines=(machine,), operation=operation)
    assert "refused" not in await process.submit(command)


async def scheduled_events(process: WorkerProcess) -> list[str]:
    """Return the ids of scheduled events."""
    events = json.loads((await process.request(poll="web"))["body"])["Events"]
    return [event["EventId"] for event in events if event["EventStatus"] == "Scheduled"]


async def measure_visibility(cluster: Cluster) -> list[float]:
    """Return how long after its acknowledgement each change is visible in the next process."""
    await create_scope(cluster, Rules())
    took, incarnation = [], 1
    for number in range(CHANGES):
        here, there = (cluster.processes[(number + n) % len(cluster.processes)] for n in (0, 1))
        waiting = asyncio.create_task(there.request(wait="web", incarnation=incarnation))
        if number % 2:
            (event,) = await scheduled_events(here)
            await here.submit(Cancel(scope="web", event=event))
        else:
            await restart(here, "web0", f"restart{number}")
        acknowledged = time.monotonic()
        incarnation = (await waiting)["incarnation"]
        took.append(max(time.monotonic() - acknowledged, 0))
        await here.request(wait="web", incarnation=incarnation - 1)
    return took


@pytest.mark.spec("X1", "X2")
def test_a_change_is_visible_in_all_processes(database_url: str, tmp_path: Path) -> None:
    """A hundred changes through processes in turn, each awaited in another process."""
    took: list[float] = []

    async def scenario(cluster: Cluster) -> None:
        took.extend(await measure_visibility(cluster))

    run_scenario(database_url, tmp_path, 3, scenario)
    p50, p99 = (quantiles(took, n=100)[n] * 1000 for n in (49, 98))
    print(f"visible elsewhere after {p50:.1f} ms (p50), {p99:.1f} ms (p99)")
    assert p50 < on_this_machine(VISIBLE_SECONDS) * 1000


@pytest.mark.spec("X1", "E9")
def test_the_work_of_a_killed_process_is_taken_over(database_url: str, tmp_path: Path) -> None:
    """Another process has its impacts and timers within seconds; nothing is executed twice."""

    async def scenario(cluster: Cluster) -> None:
        await create_scope(cluster, QUICK)
        first, second = cluster.processes
        for number, machine in enumerate(MACHINES):
            await restart(first, machine.name, f"restart{number}")
        half = tuple(await scheduled_events(first))[:5]
        await first.submit(Approve(scope="web", events=half))
        path = first.settings.action_log
        await wait_until_async(lambda: read_actions(path), "an impact begins")
        await first.kill()
        killed = time.time()
        await settle(database_url, SETTLING_SECONDS)
        ended = [action for action in read_actions(path) if action.word != "begun"]
        took = max(action.at for action in ended) - killed
        print(f"taken over after {took:.1f} s")
        assert took < on_this_machine(TAKEN_OVER_SECONDS)
        assert len({action.impact for action in ended}) == len(ended) == len(MACHINES)
        assert second.name in {action.process for action in ended}

    run_scenario(database_url, tmp_path, 2, scenario)
