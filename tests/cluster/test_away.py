"""A process that is disconnected from its database, while another is not."""

import asyncio
import time
from pathlib import Path

import pytest

from fairwarning.core.commands import CreateScope, Restart
from fairwarning.core.model import Machine, ScopeKind
from tests.cluster.cluster import Cluster, ForkServer, History, WorkerProcess
from tests.cluster.proxy import Proxy
from tests.cluster.worker import WorkerSettings
from tests.fixtures.postgres.server import shared
from tests.fixtures.waiting import WaitLimit, on_this_machine

LEASE_SECONDS = 0.6
STALENESS_SECONDS = 4.0
# Far less than a timeout of the database, and enough for a busy machine.
PROMPT_SECONDS = 3.0
RECOVERY_SECONDS = 20.0
MACHINES = tuple(Machine(name=f"web{number}") for number in range(6))


class DisconnectionTest:
    """One process behind a proxy, and one with a direct connection."""

    def __init__(self, cut_off: WorkerProcess, connected: WorkerProcess) -> None:
        self.cut_off = cut_off
        self.connected = connected
        self.history = History()
        self.count = 0

    async def change(self, process: WorkerProcess) -> str:
        """Restart another machine and return the outcome."""
        self.count += 1
        command = Restart(
            scope="web", machines=(f"web{self.count}",), operation=f"restart{self.count}"
        )
        return (await self.history.submit(process, command)).outcome

    async def version(self, process: WorkerProcess) -> int | None:
        """Return the version that a process shows; None if it refuses."""
        read = await self.history.poll(process, "web")
        return read.version if read else None

    async def create_scope(self) -> None:
        """Create a scope that both processes show."""
        command = CreateScope(scope="web", kind=ScopeKind.AVAILABILITY_SET, machines=MACHINES)
        assert (await self.history.submit(self.cut_off, command)).outcome == "done"
        for process in (self.cut_off, self.connected):
            await process.request(poll="web")

    async def wait_until_stale(self, staleness_seconds: float) -> None:
        """Wait until the disconnected process stops answering from memory, always the same."""
        limit = WaitLimit(2 * staleness_seconds)
        known = await self.version(self.cut_off)
        assert known is not None, "the process does not answer from memory"
        while (shown := await self.version(self.cut_off)) is not None:
            assert shown == known
            limit.check("it refuses to answer")
            await asyncio.sleep(0.02)


async def disconnect_and_restore(
    url: str, folder: Path, fork_server: ForkServer, *, silently: bool
) -> None:
    """Cut a process off from the database, check its answers, and restore the connection."""
    lease, staleness = on_this_machine(LEASE_SECONDS), on_this_machine(STALENESS_SECONDS)
    async with Proxy(shared().port) as proxy:
        settings = WorkerSettings("", url, str(folder), lease, staleness)
        proxied = url.replace(f":{shared().port}/", f":{proxy.port}/")
        through_proxy = WorkerSettings("", proxied, str(folder / "proxy"), lease, staleness)
        (folder / "proxy").mkdir()
        async with (
            Cluster(fork_server, through_proxy, 1) as one,
            Cluster(fork_server, settings, 1) as other,
        ):
            test = DisconnectionTest(one.processes[0], other.processes[0])
            await test.create_scope()
            cut_at = time.monotonic()
            proxy.cut_off(silently=silently)
            assert await test.change(test.connected) == "done", "the other process stopped"
            await test.wait_until_stale(staleness)
            lasted = time.monotonic() - cut_at
            assert staleness - lease < lasted
            await check_refused_at_once(test)
            proxy.restore()
            await check_resumed(test)


async def check_refused_at_once(test: DisconnectionTest) -> None:
    """A command is refused without waiting for a timeout."""
    began = time.monotonic()
    outcome = await test.change(test.cut_off)
    assert outcome not in {"done", "lost"}
    assert test.history.commands[-1].status == 503
    assert time.monotonic() - began < on_this_machine(PROMPT_SECONDS)


async def check_resumed(test: DisconnectionTest) -> None:
    """The process shows the changes of others and accepts commands, by itself."""
    newest = await test.version(test.connected)
    limit = WaitLimit(RECOVERY_SECONDS)
    while await test.version(test.cut_off) != newest:
        limit.check("the process recovers")
        await asyncio.sleep(0.02)
    assert await test.change(test.cut_off) == "done"


@pytest.mark.spec("X3")
@pytest.mark.parametrize("silently", [False, True])
def test_reads_continue_from_memory_up_to_a_limit(
    database_url: str, tmp_path: Path, silently: bool
) -> None:
    """IK3: a disconnected process answers polls from memory, then 503, and recovers by itself."""
    with ForkServer() as fork_server:
        asyncio.run(disconnect_and_restore(database_url, tmp_path, fork_server, silently=silently))
