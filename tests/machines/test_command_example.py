"""examples/impact-command, run by the command driver, with processes as machines."""

import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

from fairwarning.core.model import Impact, ImpactKind
from fairwarning.machines.command.driver import CommandDriver
from fairwarning.machines.command.program import start_time
from tests.fixtures.waiting import wait_until_async

PROGRAM = Path(__file__).parents[2] / "examples" / "impact-command" / "impact.py"
RUN = """#!/bin/sh
trap 'echo down >> log; exit 0' TERM
echo up >> log
while :; do sleep 0.02; done
"""


class Site:
    """A folder of machines, and a driver for it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "machines"
        self.machine = self.folder / "web_0"
        self.machine.mkdir(parents=True)
        (self.machine / "run").write_text(RUN)
        (self.machine / "run").chmod(0o700)
        self.reports: list[str] = []
        self.open(folder / "state")

    def open(self, state: Path) -> None:
        command = [sys.executable, str(PROGRAM), str(self.folder)]
        self.driver = CommandDriver(command, check=[*command, "--done"], state=state)

    async def execute(self, kind: str, name: str = "", machine: str = "web_0") -> str:
        before = len(self.reports)
        impact = Impact(
            id=name or kind,
            scope="web",
            machine=machine,
            kind=ImpactKind(kind),
            operation="operation",
            duration_seconds=0,
        )
        self.driver.carry_out(impact, lambda _, error: self.reports.append(error))
        await wait_until_async(lambda: len(self.reports) > before, f"{kind} is over")
        return self.reports[-1]

    async def logged(self, *lines: str) -> None:
        """Wait until the machine has logged exactly these lines."""
        path = self.machine / "log"
        await wait_until_async(
            lambda: path.exists() and path.read_text().split() == [*lines], f"{lines}"
        )

    def pid(self) -> int:
        return int((self.machine / "pid").read_text().split()[0])

    async def end(self) -> None:
        """Close the driver and kill the machine."""
        await self.driver.close()
        with suppress(OSError):
            os.kill(self.pid(), signal.SIGKILL)


async def test_a_process_id_that_is_used_again(tmp_path: Path) -> None:
    """After a reboot of the host, the id of another program: it is not ended."""
    site = Site(tmp_path)
    assert await site.execute("start") == ""
    own = site.pid()
    (site.machine / "pid").write_text(f"{os.getpid()} 1")
    assert await site.execute("stop") == ""
    os.kill(own, signal.SIGKILL)
    await site.end()


async def test_every_impact_on_a_machine(tmp_path: Path) -> None:
    """The machine starts, freezes, reboots, loses its temporary disk, and is deleted."""
    site = Site(tmp_path)
    assert await site.execute("start") == ""
    await site.logged("up")
    first = site.pid()
    (site.machine / "tmp" / "file").touch()
    assert await site.execute("freeze") == ""
    assert site.pid() == first
    assert await site.execute("reboot") == ""
    await site.logged("up", "down", "up")
    assert not start_time(first)
    assert (site.machine / "tmp" / "file").exists()
    assert await site.execute("redeploy") == ""
    await site.logged("up", "down", "up", "down", "up")
    assert list((site.machine / "tmp").iterdir()) == []
    assert await site.execute("evict") == ""
    assert not (site.machine / "pid").exists()
    assert await site.execute("delete") == ""
    assert not site.machine.exists()
    await site.end()


async def test_another_host_can_tell_what_was_done(tmp_path: Path) -> None:
    """A driver without a record runs the check, and repeats nothing."""
    site = Site(tmp_path)
    assert await site.execute("start") == ""
    await site.logged("up")
    assert await site.execute("reboot") == ""
    await site.logged("up", "down", "up")
    await site.driver.close()
    site.open(tmp_path / "another")
    assert await site.execute("reboot") == ""
    await site.logged("up", "down", "up")
    assert await site.execute("reboot", "one more") == ""
    await site.logged("up", "down", "up", "down", "up")
    await site.end()


async def test_a_machine_that_does_not_exist(tmp_path: Path) -> None:
    """The error says so; deleting it succeeds."""
    site = Site(tmp_path)
    assert await site.execute("reboot", machine="web_1") == (
        f"exit code 1: there is no machine web_1 in {site.folder}"
    )
    assert await site.execute("delete", machine="web_1") == ""
    await site.end()
