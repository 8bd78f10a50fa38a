"""An asynchronous standby takes over that lacks the last commits of the primary."""

import asyncio
from pathlib import Path

import psycopg
import pytest

from fairwarning.core.commands import CreateScope, Restart
from fairwarning.core.model import Machine, ScopeKind
from tests.cluster.cluster import Cluster, ForkServer, WorkerProcess
from tests.cluster.pair import DATABASE, Pair
from tests.cluster.plants import PLANTS
from tests.cluster.proxy import Proxy
from tests.cluster.worker import WorkerSettings
from tests.fixtures.postgres.database import skip_without_postgres
from tests.fixtures.receiver import SECRET, Receiver
from tests.fixtures.waiting import WaitLimit, on_this_machine, wait_until_async
from tests.sim.violations import Violation, must

MACHINES = tuple(Machine(name=name) for name in ("lost", "kept", "late"))
LEASE_SECONDS = 1.0


async def restart(process: WorkerProcess, machine: str) -> None:
    """Restart a machine; try again until the process has acknowledged it."""
    command = Restart(scope="web", machines=(machine,), operation=f"restart-{machine}")
    limit = WaitLimit()
    while "refused" in (answer := await process.submit(command)):
        limit.check(answer["refused"])
        await asyncio.sleep(0.05)


async def lose_tail(
    pair: Pair, proxy: Proxy, cut_off: WorkerProcess, other: WorkerProcess, receiver: Receiver
) -> None:
    """Lose a commit that both processes know, and replace it by another one of the same version."""
    hook = await other.request(hook="create", name="hook", url=receiver.url, secret=SECRET)
    assert "refused" not in hook
    create = CreateScope(scope="web", kind=ScopeKind.AVAILABILITY_SET, machines=MACHINES)
    assert "refused" not in await cut_off.submit(create)
    for process in (cut_off, other):
        await process.request(poll="web")
    await asyncio.to_thread(pair.detach_standby)
    waiting = asyncio.create_task(other.request(wait="web", incarnation=1))
    await restart(cut_off, "lost")
    await waiting
    await wait_until_async(lambda: receiver.posts, "the lost event is reported")
    proxy.cut_off(silently=False)
    await asyncio.to_thread(pair.kill_primary)
    await asyncio.to_thread(pair.promote)
    await restart(other, "kept")
    proxy.restore(pair.primary.port)
    await restart(cut_off, "late")


def check_database(url: str) -> None:
    """Everything that was acknowledged after the failover is there."""
    with psycopg.connect(url) as connection:
        query = "SELECT body FROM fairwarning.entity WHERE kind = 'Scope' AND id = 'web'"
        ((body,),) = connection.execute(query).fetchall()
    for machine in ("kept", "late"):
        must(f'"restart-{machine}"' in body, "E9", f"the restart of {machine!r} is lost: {body}")
    must('"restart-lost"' not in body, "IK1", f"a restart came back that was lost: {body}")


async def check_webhook(receiver: Receiver) -> None:
    """IK5: what replaced the lost lines, with their numbers, is reported as well, in its order."""

    def reported() -> list[str]:
        return [post.json["data"]["Operation"] for post in receiver.posts]

    await wait_until_async(lambda: "restart-late" in reported(), "the last event is reported")
    expected = ["restart-lost", "restart-kept", "restart-late"]
    must(list(dict.fromkeys(reported())) == expected, "IK5", f"reported: {reported()}")
    ids = {post.json["id"] for post in receiver.posts}
    must(len(ids) == len(expected), "IK5", f"a receiver takes one of these for another: {ids}")


async def fail_over(pair: Pair, fork_server: ForkServer, folder: Path) -> str:
    """Run the scenario, check its end, and return the log of the process that saw the loss."""
    async with Proxy(pair.primary.port) as proxy:
        through_proxy = f"postgresql://postgres@127.0.0.1:{proxy.port}/{DATABASE}"
        (folder / "proxy").mkdir()
        lease = on_this_machine(LEASE_SECONDS)
        settings = WorkerSettings("", pair.url, str(folder), lease)
        cut_off = WorkerSettings("", through_proxy, str(folder / "proxy"), lease)
        async with (
            Cluster(fork_server, cut_off, 1) as first,
            Cluster(fork_server, settings, 1) as second,
        ):
            with Receiver() as receiver:
                await lose_tail(pair, proxy, first.processes[0], second.processes[0], receiver)
                await asyncio.to_thread(check_database, pair.url)
                await check_webhook(receiver)
            return second.processes[0].log_tail()


@pytest.mark.spec("X1")
def test_a_lost_commit_makes_no_process_overwrite_a_later_one(tmp_path: Path) -> None:
    """IK1: what is remembered of the lost commit is forgotten, and the loss is logged."""
    skip_without_postgres()
    with Pair(synchronous=False) as pair, ForkServer() as fork_server:
        log = asyncio.run(fail_over(pair, fork_server, tmp_path))
    assert "the database has lost the last 2 changes that this process knew of" in log


@pytest.mark.campaign
@pytest.mark.parametrize("bug", [name for name in PLANTS if PLANTS[name].failover])
def test_a_process_that_trusts_its_memory_is_found(bug: str, tmp_path: Path) -> None:
    """It overwrites what was acknowledged after the failover, or does not report it."""
    skip_without_postgres()
    with (
        Pair(synchronous=False) as pair,
        ForkServer(bug) as fork_server,
        pytest.raises(Violation) as violation,
    ):
        asyncio.run(fail_over(pair, fork_server, tmp_path))
    assert violation.value.invariant in PLANTS[bug].breaks.split()
