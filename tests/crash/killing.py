"""Kills a real service at failpoints or at random, and checks that it kept its promises.

`python -m tests.crash.killing --kills 200` kills at random under load.
"""

import argparse
import base64
import json
import os
import pickle
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, ClassVar

from fairwarning.core.commands import (
    Approve,
    Command,
    CreateScope,
    Operate,
    Redeploy,
    Restart,
)
from fairwarning.core.model import Machine, Rules, Scope, ScopeKind
from tests.fixtures.programs import ROOT
from tests.fixtures.random_commands import PolledFleet, RandomCommands
from tests.fixtures.waiting import LIMIT_SECONDS, WaitLimit

QUICK = Rules(reboot_seconds=1, redeploy_seconds=1, impact_limit_seconds=600)
SCOPES = tuple(f"scope{n}" for n in range(6))
MACHINES = 4  # of a scope
ENDED_SECONDS = 20.0  # within which an operation ends


class ProcessEnded(Exception):
    """The process has ended."""


class Process:
    """One process of the service."""

    def __init__(self, data: Path, failpoint: str = "") -> None:
        environment = {**os.environ, "FAIRWARNING_FAILPOINT": failpoint}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.worker", str(data)],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.lines: queue.Queue[str | None] = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def answer(self) -> dict[str, Any]:
        """Return the next answer; raises `ProcessEnded` at the end."""
        line = self.lines.get(timeout=LIMIT_SECONDS)
        if line is None:
            raise ProcessEnded
        answer: dict[str, Any] = json.loads(line)
        return answer

    def send(self, request: dict[str, Any]) -> None:
        """Send a request; the answer may come later, or never."""
        assert self.process.stdin
        try:
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise ProcessEnded from None

    def ask(self, **request: str) -> dict[str, Any]:
        """Send a request and wait for the answer."""
        self.send({"n": -1, **request})
        return self.answer()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.process.kill()

    def end(self) -> int:
        """Wait for the end, clean up and return the exit code."""
        code = self.process.wait(timeout=LIMIT_SECONDS)
        self.reader.join(timeout=LIMIT_SECONDS)
        assert self.process.stdin
        assert self.process.stdout
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        return code


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

    def __init__(self, data: Path, seed: int) -> None:
        self.data = data
        self.random = Random(seed)
        self.commands = QuickOperations(self.random, PolledFleet())
        self.count = 0
        self.sent: dict[int, Command | str] = {}  # commands, and the scopes of polls
        self.operations: list[str] = []  # acknowledged
        self.approvals: list[str] = []  # acknowledged
        self.documents: dict[tuple[str, int], str] = {}
        self.newest: dict[str, int] = {}

    # --- Load ---

    def request(self) -> dict[str, Any]:
        """Return the next random request."""
        self.count += 1
        if self.count <= len(SCOPES):
            return self._submit(create(SCOPES[self.count - 1]))
        if self.random.random() < 0.3:
            self.sent[self.count] = scope = self.random.choice(SCOPES)
            return {"n": self.count, "do": "poll", "scope": scope}
        return self._submit(self.commands.command())

    def _submit(self, command: Command) -> dict[str, Any]:
        self.sent[self.count] = command
        if isinstance(command, CreateScope):
            self.commands.known.add(command)
        text = base64.b64encode(pickle.dumps(command)).decode()
        return {"n": self.count, "do": "submit", "command": text}

    def record(self, answer: dict[str, Any]) -> None:
        """Record an answer, on which clients rely from now on."""
        request = self.sent.get(answer["n"])
        if "refused" in answer:
            return
        if isinstance(request, Operate):
            self.operations.append(request.operation)
        elif isinstance(request, Approve):
            self.approvals += request.events
        elif isinstance(request, str) and answer["incarnation"]:
            self.record_document(request, answer)

    def record_document(self, scope: str, answer: dict[str, Any]) -> None:
        """ID1, ID2: one content per incarnation, even across crashes, and never backwards."""
        incarnation = answer["incarnation"]
        known = self.documents.setdefault((scope, incarnation), answer["digest"])
        assert known == answer["digest"], f"{scope} shows two documents at {incarnation}"
        assert incarnation >= self.newest.get(scope, 0), f"{scope} fell back to {incarnation}"
        self.newest[scope] = incarnation
        self.commands.known.poll(scope, answer["events"])

    def run(self, failpoint: str = "", requests: int = 150, kill_after: int | None = None) -> int:
        """Run a process under load until it dies or stops; return its exit code."""
        process = Process(self.data, failpoint)
        try:
            process.answer()
            open_requests = 0
            for number in range(requests):
                process.send(self.request())
                open_requests += 1
                if number == kill_after:
                    process.kill()
                if open_requests >= 8:
                    self.record(process.answer())
                    open_requests -= 1
            process.send({"n": -2, "do": "stop"})
            while True:
                self.record(process.answer())
        except ProcessEnded:
            return process.end()

    # --- Checks ---

    def check(self) -> None:
        """Restart the service, let everything finish, and compare."""
        process = Process(self.data)
        try:
            process.answer()
            for operation in self.operations:
                self._check_finished(process, operation)
            for event in self.approvals:
                lines = process.ask(do="approved", event=event)["lines"]
                # The event may have started by itself just before; the approval is then void.
                assert lines.count("Approved") <= 1, f"{event} was approved twice: {lines}"
                assert lines.count("Started") == 1, f"approval of {event} is lost: {lines}"
            for scope in SCOPES:
                answer = process.ask(do="poll", scope=scope)
                if answer["incarnation"]:
                    self.record_document(scope, answer)
            process.send({"n": -2, "do": "stop"})
        except BaseException:
            process.kill()
            process.end()
            raise
        code = process.end()
        assert code == 0, f"a clean stop ended with {code}"
        done = Counter(self.data.with_suffix(".done").read_text().split())
        twice = [impact for impact, times in done.items() if times > 1]
        assert not twice, f"executed twice: {twice}"

    def _check_finished(self, process: Process, operation: str) -> None:
        """E9, IC1: an accepted operation still exists and finishes."""
        limit = WaitLimit(ENDED_SECONDS)
        while True:
            status = process.ask(do="operation", operation=operation)["status"]
            assert status is not None, f"the accepted operation {operation} is lost"
            if status != "InProgress":
                assert status == "Succeeded", f"{operation} ended as {status}"
                return
            process.ask(do="poll", scope=SCOPES[0])
            limit.check(f"{operation} ends")
            time.sleep(0.01)  # the notice runs in real time


def kill_at_random(kills: int, seed: int, folder: Path) -> KillTest:
    """Run processes on one file, each killed at a random time under load."""
    test = KillTest(folder / "fleet.db", seed)
    for number in range(kills):
        test.run(requests=200, kill_after=test.random.randrange(5, 195))
        if number % 20 == 19:
            test.check()
            print(f"{number + 1} kills, {len(test.operations)} operations kept", flush=True)
    test.check()
    return test


def main() -> None:
    """Kill at random, as often as requested."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        test = kill_at_random(options.kills, options.seed, Path(folder))
    print(
        f"seed {options.seed}: {options.kills} kills, {len(test.operations)} operations and "
        f"{len(test.approvals)} approvals acknowledged, none lost, none repeated"
    )


if __name__ == "__main__":
    main()
