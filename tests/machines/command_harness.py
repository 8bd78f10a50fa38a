"""A harness for the command driver: shell scripts to run for impacts, and their log."""

import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from fairwarning.core.model import Impact, ImpactKind
from fairwarning.machines.command.driver import CommandDriver
from tests.fixtures.waiting import wait_until_async
from tests.machines import harness

# $0 is the test's folder. Each run logs its start and its end in one file.
NOTES = 'echo "begun $FAIRWARNING_IMPACT_ID $FAIRWARNING_REPEAT $$ $PPID" >> "$0/log"\n'
ENDS = 'echo "ended $FAIRWARNING_IMPACT_ID" >> "$0/log"\n'
QUICK = NOTES + ENDS
WAITS = NOTES + 'while [ ! -e "$0/go" ]; do sleep 0.02; done\n' + ENDS
"""Runs until the test releases it."""


class CommandHarness:
    """A sequence of drivers that share a state folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self.reports: dict[str, list[str]] = {}
        self.drivers: list[CommandDriver] = []

    def start_driver(
        self,
        script: str,
        *,
        check: str = "",
        seconds: float = 20.0,
        now: Callable[[], float] = lambda: 0.0,
    ) -> CommandDriver:
        """Start a driver with this script for its impacts."""
        driver = CommandDriver(
            self.command(script),
            check=self.command(check) if check else (),
            timeout_seconds=seconds,
            grace_seconds=0.3,
            state=self.state,
            now=now,
        )
        self.drivers.append(driver)
        return driver

    def command(self, script: str) -> list[str]:
        return ["sh", "-c", script, str(self.folder)]

    def submit(
        self,
        name: str = "one",
        machine: str = "web_0",
        limit_seconds: int = 3600,
        announced_seconds: int = -1,
    ) -> None:
        """Hand an impact to the newest driver."""
        impact = Impact(
            id=name,
            scope="web",
            machine=machine,
            kind=ImpactKind.REBOOT,
            operation="restart",
            event="event",
            duration_seconds=announced_seconds,
            limit_seconds=limit_seconds,
        )
        self.drivers[-1].carry_out(impact, self._report)

    def _report(self, impact: Impact, error: str) -> None:
        self.reports.setdefault(impact.id, []).append(error)

    async def begin(self, script: str, **how: Any) -> CommandDriver:  # noqa: ANN401  (of `start_driver`)
        """Start a driver, hand an impact to it and wait until the script has begun."""
        driver = self.start_driver(script, **how)
        self.submit()
        await self.wait_for_runs()
        return driver

    async def result(self, name: str = "one", times: int = 1) -> str:
        await wait_until_async(lambda: len(self.reports.get(name, [])) == times, f"{name} is over")
        return self.reports[name][-1]

    async def outcome(self, script: str, *, check: str = "", seconds: float = 20.0) -> str:
        """Execute one impact with this script and return its error."""
        self.start_driver(script, check=check, seconds=seconds)
        self.submit()
        return await self.result()

    def log(self) -> list[list[str]]:
        """Return the words of each line that the scripts logged."""
        path = self.folder / "log"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def words(self) -> list[str]:
        return [line[0] for line in self.log()]

    async def wait_for_runs(self, count: int = 1) -> None:
        """Wait until this many runs have started."""
        await wait_until_async(lambda: self.words().count("begun") == count, f"{count} have begun")

    def release(self) -> None:
        (self.folder / "go").touch()

    async def close(self) -> None:
        self.release()
        for driver in self.drivers:
            await driver.close()
        for line in [line for line in self.log() if line[0] == "begun"]:
            with suppress(ProcessLookupError):
                os.killpg(int(line[3]), signal.SIGKILL)


@asynccontextmanager
async def command_harness(folder: Path) -> AsyncIterator[CommandHarness]:
    """Provide a harness and clean up after it."""
    drivers = CommandHarness(folder)
    try:
        yield drivers
    finally:
        await drivers.close()


with_command_harness = partial(harness.with_harness, command_harness)
in_both_loops = partial(harness.in_both_loops, command_harness)
