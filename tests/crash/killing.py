"""Kills a real service at failpoints or at random, and checks that it kept its promises.

`python -m tests.crash.killing --kills 200` kills at random under load.
"""

import argparse
import asyncio
import json
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from fairwarning.core.commands import Approve, Command, CreateScope, Operate, Redeploy, Restart
from fairwarning.core.decision import FactType
from fairwarning.core.errors import NotFound
from fairwarning.core.model import Machine, Operation, OperationStatus, Rules, Scope, ScopeKind
from fairwarning.service.clock import RealClock
from fairwarning.service.fleet import Fleet
from fairwarning.store.sqlite import SQLiteStore
from tests.cluster.action_log import FileDriver, read_actions
from tests.cluster.cluster import ForkServer, NoAnswer, WorkerProcess
from tests.cluster.worker import VERSION, WorkerSettings
from tests.fixtures.random_commands import PolledFleet, RandomCommands
from tests.fixtures.waiting import WaitLimit

QUICK = Rules(reboot_seconds=1, redeploy_seconds=1, impact_limit_seconds=600)
SCOPES = tuple(f"scope{n}" for n in range(6))
MACHINES = 4  # of a scope
CLIENTS = 8
ENDED_SECONDS = 20.0  # within which an operation ends


class QuickOperations(RandomCommands):
    """Operations with notices short enough for a test to wait, and approvals."""

    SHARES: ClassVar[Mapping[str, float]] = {"approve": 0.43, "operate": 0.57}
    known: PolledFleet

    def operations(self, scope: Scope) -> Sequence[type[Operate]]:
        return Restart, Redeploy


def create(name: str) -> CreateScope:
    """Return the command that creates a scope."""
    machines = tuple(Machine(name=f"{name}-{n}", update_domain=n % 2) for n in range(MACHINES))
    return CreateScope(scope=name, kind=ScopeKind.AVAILABILITY_SET, machines=machines, rules=QUICK)


class KillTest:
    """Runs a service several times and records what its clients were told."""

    def __init__(self, folder: Path, seed: int, fork_server: ForkServer) -> None:
        self._fork_server = fork_server
        self._settings = WorkerSettings(
            "", str(folder / "fleet.db"), str(folder), impacts_fail=False
        )
        self.random = Random(seed)
        self.commands = QuickOperations(self.random, PolledFleet())
        self.count = 0
        self.starts = 0
        self.operations: list[str] = []  # acknowledged
        self.approvals: list[str] = []  # acknowledged
        self.documents: dict[tuple[str, int], str] = {}
        self.newest: dict[str, int] = {}

    # --- Load ---

    async def request(self, process: WorkerProcess) -> None:
        """Send the next random request, and record the answer: clients rely on it from now on."""
        self.count += 1
        if self.count <= len(SCOPES):
            creation = create(SCOPES[self.count - 1])
            self.commands.known.add(creation)
            command: Command = creation
        elif self.random.random() < 0.3:
            scope = self.random.choice(SCOPES)
            self.record_document(scope, await process.request(poll=scope))
            return
        else:
            command = self.commands.command()
        if "refused" in await process.submit(command):
            return
        if isinstance(command, Operate):
            self.operations.append(command.operation)
        elif isinstance(command, Approve):
            self.approvals += command.events

    def record_document(self, scope: str, answer: Mapping[str, Any]) -> None:
        """ID1, ID2: one content per incarnation, even across crashes, and never backwards."""
        if "body" not in answer:
            return
        document = json.loads(answer["body"])
        incarnation = document["DocumentIncarnation"]
        known = self.documents.setdefault((scope, incarnation), answer["body"])
        assert known == answer["body"], f"{scope} shows two documents at {incarnation}"
        assert incarnation >= self.newest.get(scope, 0), f"{scope} fell back to {incarnation}"
        self.newest[scope] = incarnation
        events = [e["EventId"] for e in document["Events"] if e["EventStatus"] == "Scheduled"]
        self.commands.known.poll(scope, events)

    async def run(
        self, failpoint: str = "", requests: int = 150, kill_after: int | None = None
    ) -> bool:
        """Run a process under load; return whether it was killed before it had stopped."""
        self.starts += 1
        settings = replace(self._settings, name=f"p{self.starts}", failpoint=failpoint)
        process = WorkerProcess(settings, self._fork_server.fork(settings))
        try:
            await process.connect()
            await self._load(process, requests, kill_after)
            await process.request(stop=True)
        except NoAnswer:
            return True
        finally:
            await process.kill()
        return False

    async def _load(self, process: WorkerProcess, requests: int, kill_after: int | None) -> None:
        left = iter(range(requests))

        async def client() -> None:
            for number in left:
                if number == kill_after:
                    await process.kill()
                with suppress(NoAnswer):
                    await self.request(process)

        async with asyncio.TaskGroup() as group:
            for _ in range(CLIENTS):
                group.create_task(client())

    # --- Checks ---

    async def check(self) -> None:
        """Open the fleet, let everything finish, and compare."""
        actions = self._settings.action_log
        driver = FileDriver(actions, "check", fails=False)
        fleet = Fleet(SQLiteStore(self._settings.url), RealClock(), driver)
        await fleet.start()
        for name in self.operations:
            await self._check_finished(fleet, name)
        for event in self.approvals:
            lines = [entry.line.fact.type for entry in await fleet.store.journal(event=event)]
            # The event may have started by itself just before; the approval is then void.
            assert lines.count(FactType.APPROVED) <= 1, f"{event} was approved twice: {lines}"
            assert lines.count(FactType.STARTED) == 1, f"approval of {event} is lost: {lines}"
        for scope in SCOPES:
            with suppress(NotFound):
                body = (await fleet.poll(scope)).body(VERSION)
                self.record_document(scope, {"body": body.decode()})
        await fleet.stop()
        done = Counter(action.impact for action in read_actions(actions) if action.word == "done")
        twice = [impact for impact, times in done.items() if times > 1]
        assert not twice, f"executed twice: {twice}"

    async def _check_finished(self, fleet: Fleet, name: str) -> None:
        """E9, IC1: an accepted operation still exists and finishes."""
        limit = WaitLimit(ENDED_SECONDS)
        while True:
            operation = await fleet.reader.read(Operation, name)
            assert operation is not None, f"the accepted operation {name} is lost"
            if operation.status is not OperationStatus.RUNNING:
                assert operation.status is OperationStatus.SUCCEEDED, operation
                return
            limit.check(f"{name} ends")
            await asyncio.sleep(0.01)  # the notice runs in real time


async def kill_at_random(kills: int, seed: int, folder: Path, fork_server: ForkServer) -> KillTest:
    """Run processes on one file, each killed at a random time under load."""
    test = KillTest(folder, seed, fork_server)
    for number in range(kills):
        assert await test.run(requests=200, kill_after=test.random.randrange(5, 195))
        if number % 20 == 19:
            await test.check()
            print(f"{number + 1} kills, {len(test.operations)} operations kept", flush=True)
    await test.check()
    return test


def main() -> None:
    """Kill at random, as often as requested."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ForkServer() as fork_server:
        run = kill_at_random(options.kills, options.seed, Path(folder), fork_server)
        test = asyncio.run(run)
    print(
        f"seed {options.seed}: {options.kills} kills, {len(test.operations)} operations and "
        f"{len(test.approvals)} approvals acknowledged, none lost, none repeated"
    )


if __name__ == "__main__":
    main()
