"""examples/impact-command, run by the driver it is for, on machines that are processes."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from fairwarning.core.model import Impact, ImpactKind
from fairwarning.machines.command.driver import CommandDriver
from fairwarning.machines.command.program import birth
from tests.fixtures.waiting import run_async, wait_until_async

PROGRAM = Path(__file__).parents[2] / "examples" / "impact-command" / "impact.py"
RUN = """#!/bin/sh
trap 'echo down >> log; exit 0' TERM
echo up >> log
while :; do sleep 0.02; done
"""


class Site:
    """A folder of machines, and a driver that knows it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "machines"
        self.machine = self.folder / "web_0"
        self.machine.mkdir(parents=True)
        (self.machine / "run").write_text(RUN)
        (self.machine / "run").chmod(0o700)
        self.reports: list[str] = []
        self.open(folder / "state")

    def open(self, state: Path) -> None:
        """A driver with this memory."""
        command = [sys.executable, str(PROGRAM), str(self.folder)]
        self.driver = CommandDriver(command, check=[*command, "--done"], state=state)

    async def hit(self, kind: str, name: str = "", machine: str = "web_0") -> str:
        """Let an impact happen; how it went."""
        before = len(self.reports)
        impact = Impact(
            id=name or kind,
            scope="web",
            machine=machine,
            kind=ImpactKind(kind),
            operation="operation",
            duration_seconds=0,
        )
        self.driver.carry_out(impact, lambda _, failed: self.reports.append(failed))
        await wait_until_async(lambda: len(self.reports) > before, f"{kind} is over")
        return self.reports[-1]

    async def logged(self, *lines: str) -> None:
        """What the machine has said of itself."""
        path = self.machine / "log"
        await wait_until_async(
            lambda: path.exists() and path.read_text().split() == [*lines], f"{lines}"
        )

    def number(self) -> int:
        return int((self.machine / "pid").read_text())

    async def end(self) -> None:
        """Nothing is left running."""
        await self.driver.close()
        with suppress(OSError):
            os.kill(self.number(), signal.SIGKILL)


@run_async
async def test_a_machine_lives_by_it(tmp_path: Path) -> None:
    """It comes up, stands still, goes down and up again, loses its temporary disk, and is gone."""
    site = Site(tmp_path)
    assert await site.hit("start") == ""
    await site.logged("up")
    first = site.number()
    (site.machine / "tmp" / "file").touch()
    assert await site.hit("freeze") == ""
    assert site.number() == first
    assert await site.hit("reboot") == ""
    await site.logged("up", "down", "up")
    assert not birth(first)
    assert (site.machine / "tmp" / "file").exists()
    assert await site.hit("redeploy") == ""
    await site.logged("up", "down", "up", "down", "up")
    assert list((site.machine / "tmp").iterdir()) == []
    assert await site.hit("evict") == ""
    assert not (site.machine / "pid").exists()
    assert await site.hit("delete") == ""
    assert not site.machine.exists()
    await site.end()


@run_async
async def test_another_host_hears_that_it_was_done(tmp_path: Path) -> None:
    """A driver that knows nothing asks the check, and does nothing twice."""
    site = Site(tmp_path)
    assert await site.hit("start") == ""
    await site.logged("up")
    assert await site.hit("reboot") == ""
    await site.logged("up", "down", "up")
    await site.driver.close()
    site.open(tmp_path / "another")
    assert await site.hit("reboot") == ""
    await site.logged("up", "down", "up")
    assert await site.hit("reboot", "one more") == ""
    await site.logged("up", "down", "up", "down", "up")
    await site.end()


@run_async
async def test_a_machine_that_is_not_there(tmp_path: Path) -> None:
    """The failure says so; to delete it is no failure."""
    site = Site(tmp_path)
    assert await site.hit("reboot", machine="web_1") == (
        f"exit code 1: there is no machine web_1 in {site.folder}"
    )
    assert await site.hit("delete", machine="web_1") == ""
    await site.end()
