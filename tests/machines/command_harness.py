"""A harness for the command driver: shell scripts to run for impacts, and their log."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import uvloop

from fairwarning.core.model import Impact, ImpactKind
from fairwarning.machines.command.driver import CommandDriver
from tests.fixtures.waiting import OUTER_LIMIT_SECONDS, wait_until_async

MakeLoop = Callable[[], asyncio.AbstractEventLoop]
Test = Callable[[Path], Coroutine[Any, Any, None]]

# $0 is the test's folder. Each run logs its start and its end in one file.
NOTES = 'echo "begun $FAIRWARNING_IMPACT_ID $FAIRWARNING_REPEAT $$ $PPID" >> "$0/log"\n'
ENDS = 'echo "ended $FAIRWARNING_IMPACT_ID" >> "$0/log"\n'
QUICK = NOTES + ENDS
WAITS = NOTES + 'while [ ! -e "$0/go" ]; do sleep 0.02; done\n' + ENDS
"""Runs until the test releases it."""


def in_both_loops(test: Test) -> Callable[[MakeLoop, Path], None]:
    """Run a test on the asyncio loop and on the loop of the service; fail if it hangs."""

    def run(make_loop: MakeLoop, tmp_path: Path) -> None:
        with asyncio.Runner(loop_factory=make_loop) as runner:
            runner.run(asyncio.wait_for(test(tmp_path), OUTER_LIMIT_SECONDS))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    loops = [
        pytest.param(uvloop.new_event_loop, id="uvloop"),
        pytest.param(asyncio.new_event_loop, id="asyncio", marks=pytest.mark.campaign),
    ]
    return pytest.mark.parametrize("make_loop", loops)(run)


class CommandDriverHarness:
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

    async def result(self, name: str = "one", times: int = 1) -> str:
        """Wait for the given report of an impact and return its error."""
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
        """Return the first word of each line."""
        return [line[0] for line in self.log()]

    async def wait_for_runs(self, count: int = 1) -> None:
        """Wait until this many runs have started."""
        await wait_until_async(lambda: self.words().count("begun") == count, f"{count} have begun")

    def release(self) -> None:
        """Let waiting scripts end."""
        (self.folder / "go").touch()

    async def close(self) -> None:
        """Close all drivers and kill all scripts."""
        self.release()
        for driver in self.drivers:
            await driver.close()
        for line in [line for line in self.log() if line[0] == "begun"]:
            with suppress(ProcessLookupError):
                os.killpg(int(line[3]), signal.SIGKILL)


@asynccontextmanager
async def command_harness(folder: Path) -> AsyncIterator[CommandDriverHarness]:
    """Provide a harness and clean up after it."""
    harness = CommandDriverHarness(folder)
    try:
        yield harness
    finally:
        await harness.close()
