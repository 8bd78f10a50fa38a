"""The process driver: impacts happen to the programs that are the machine."""

import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fixtures.requirements import needs_namespaces, needs_nsenter
from tests.fixtures.waiting import run_async, wait_until_async
from tests.machines.process_harness import process_harness, steady

pytestmark = needs_namespaces

# Hides from its parent, its group and its session, and does not end when asked to.
DAEMON = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with open({pids!r}, "a") as pids:
            pids.write(os.readlink("/proc/self/ns/pid") + "\\n")
        time.sleep(1000)
    os._exit(0)
signal.pause()
"""

# Waits for a child as shells do, and says what it hears of it.
SHELL = """
import os, time
child = os.fork()
if child == 0:
    time.sleep(1000)
print("waits", flush=True)
while True:
    print(os.waitpid(child, os.WUNTRACED), flush=True)
"""

# Whether the endpoint refuses, seen from inside the machine's network.
REFUSES = """
import socket
try:
    socket.create_connection(("169.254.169.254", 80))
except ConnectionRefusedError:
    raise SystemExit(0)
raise SystemExit("it does not refuse")
"""


def states(pids: list[int]) -> set[str]:
    """What /proc says of processes: S sleeps, R runs, T is stopped, D waits in the kernel."""
    found = set()
    for pid in pids:
        with suppress(OSError):  # it has just ended
            found.add(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
    return found


def frozen(pids: list[int]) -> bool:
    """Whether all are stopped. A parent may wait, in the kernel, for a child that is stopped."""
    return "T" in states(pids) and not states(pids) & {"R", "S"}


@pytest.mark.spec("O4")
@run_async
async def test_a_frozen_machine_stands_still(tmp_path: Path) -> None:
    """All its processes are stopped for as long as was announced; then they go on as before."""
    async with process_harness(tmp_path) as harness:
        await harness.counting()
        freeze = harness.hit("freeze", seconds=1)
        await wait_until_async(lambda: frozen(harness.inhabitants()), "it is stopped")
        assert await steady(harness.count)
        assert freeze not in harness.reports
        assert await harness.over(freeze) == ""
        count = harness.count()
        await wait_until_async(lambda: harness.count() > count, "it goes on")
        assert harness.log() == ["started"]
        assert harness.said() == ["fairwarning: web_0 is frozen for 1 s"]


@pytest.mark.spec("O4")
@run_async
async def test_a_freeze_does_not_look_like_a_suspended_child(tmp_path: Path) -> None:
    """A shell that waits for a program must not take it for stopped by the user."""
    async with process_harness(tmp_path) as harness:
        harness.start(sys.executable, "-c", SHELL)
        await wait_until_async(lambda: harness.out() != "", "it waits")
        for seconds in (0, 0, 0, 1):
            assert await harness.over(harness.hit("freeze", seconds=seconds)) == ""
        await wait_until_async(lambda: states(harness.inhabitants()) == {"S"}, "it goes on")
        assert await steady(harness.out)
        assert harness.out() == "waits\n"


@pytest.mark.spec("O4")
@run_async
async def test_a_rebooted_machine_starts_afresh(tmp_path: Path) -> None:
    """The program is asked to end, does so in its own way, and is started again; exec stays."""
    async with process_harness(tmp_path) as harness:
        program = await harness.counting()
        assert await harness.over(harness.hit("reboot")) == ""
        await wait_until_async(
            lambda: harness.log() == ["started", "ended", "started"], "it starts again"
        )
        assert harness.listeners.open == ["web_0"]
        assert program.poll() is None
        assert harness.said() == ["fairwarning: web_0 is rebooted"]
        program.send_signal(signal.SIGTERM)
        assert await harness.code(program) == 0


@pytest.mark.spec("O4")
@run_async
async def test_a_program_that_does_not_end_is_killed(tmp_path: Path) -> None:
    """After its grace, and so is what it has started, however well hidden."""
    pids = tmp_path / "pids"
    async with process_harness(tmp_path) as harness:
        harness.start(
            sys.executable,
            "-c",
            DAEMON.format(pids=str(pids)),
            options=("--grace", "0.2", "--quiet"),
        )
        await wait_until_async(pids.exists, "the daemon runs")
        await wait_until_async(
            lambda: len(harness.inhabitants()) == 2, "the program and its daemon run"
        )
        before = harness.inhabitants()
        assert await harness.over(harness.hit("reboot")) == ""
        await wait_until_async(lambda: len(harness.inhabitants()) == 2, "both run again")
        assert not set(before) & set(harness.inhabitants())
        assert harness.err() == ""


@pytest.mark.spec("O4")
@pytest.mark.parametrize("kind", ["redeploy", "reimage"])
@run_async
async def test_a_redeploy_empties_the_temporary_disk(tmp_path: Path, kind: str) -> None:
    """And nothing else: what is elsewhere stays. A reboot leaves it as it is."""
    async with process_harness(tmp_path) as harness:
        await harness.counting()
        temporary = harness.data / "machines" / "web_0" / "tmp"
        (temporary / "folder").mkdir()
        (temporary / "folder" / "file").write_text("text")
        (temporary / "file").write_text("text")
        (temporary / "link").symlink_to(tmp_path)
        assert await harness.over(harness.hit("reboot")) == ""
        assert len(list(temporary.iterdir())) == 3
        await wait_until_async(lambda: harness.log().count("started") == 2, "it starts again")
        assert await harness.over(harness.hit(kind)) == ""
        assert list(temporary.iterdir()) == []
        await wait_until_async(lambda: harness.log().count("started") == 3, "it starts again")
        assert harness.count() > 0


@pytest.mark.spec("O4")
@pytest.mark.parametrize("kind", ["evict", "delete"])
@run_async
async def test_some_impacts_are_the_end(tmp_path: Path, kind: str) -> None:
    """The program ends, and exec with its exit code; what follows is for others."""
    async with process_harness(tmp_path) as harness:
        program = await harness.counting()
        assert await harness.over(harness.hit(kind)) == ""
        assert await harness.code(program) == 0
        assert harness.log() == ["started", "ended"]
        assert harness.err().startswith(f"fairwarning: web_0 is {kind}")
        await wait_until_async(lambda: not harness.listeners.open, "the listener closes")
        assert await harness.over(harness.hit("start")) == ""
        assert harness.fallback.given == ["impact 2"]


@pytest.mark.spec("O4")
@pytest.mark.parametrize("kind", ["stop", "deallocate"])
@run_async
async def test_a_stopped_machine_can_be_started(tmp_path: Path, kind: str) -> None:
    """Exec waits meanwhile, without a program; a second start does nothing."""
    async with process_harness(tmp_path) as harness:
        program = await harness.counting()
        assert await harness.over(harness.hit(kind)) == ""
        assert harness.log() == ["started", "ended"]
        assert harness.inhabitants() == []
        assert harness.listeners.open == []
        assert program.poll() is None
        assert await harness.over(harness.hit("start")) == ""
        assert await harness.over(harness.hit("start")) == ""
        await wait_until_async(
            lambda: harness.log() == ["started", "ended", "started"], "it starts again"
        )
        assert harness.listeners.open == ["web_0"]


@pytest.mark.spec("O4")
@run_async
async def test_a_stopped_machine_can_be_given_up(tmp_path: Path) -> None:
    """There is no program that a signal could be for, so it ends exec."""
    async with process_harness(tmp_path) as harness:
        program = await harness.counting()
        assert await harness.over(harness.hit("stop")) == ""
        program.send_signal(signal.SIGUSR1)
        program.send_signal(signal.SIGTERM)
        assert await harness.code(program) == 143


@pytest.mark.spec("O4")
@run_async
async def test_a_reboot_can_be_given_up(tmp_path: Path) -> None:
    """Whoever ends exec while its program takes its time need not wait for it."""
    async with process_harness(tmp_path) as harness:
        command = ("sh", "-c", "trap '' TERM; echo here; while :; do sleep 0.01; done")
        program = harness.start(*command, options=("--grace", "1000"))
        await wait_until_async(lambda: harness.out() != "", "it runs")
        reboot = harness.hit("reboot")
        await wait_until_async(lambda: harness.said() != [], "it is told to end")
        program.send_signal(signal.SIGTERM)
        assert await harness.code(program) == 143
        assert await harness.over(reboot) == "the program that is web_0 went away"


@pytest.mark.spec("O4")
@needs_nsenter
@run_async
async def test_the_endpoint_of_a_machine_that_is_down_refuses(tmp_path: Path) -> None:
    """Seen from inside its network; and whoever was connected is cut off."""
    async with process_harness(tmp_path) as harness:
        program = await harness.counting()
        assert await harness.over(harness.hit("stop")) == ""
        enter = ("nsenter", "--preserve-credentials", "--user", "--net", "-t", str(program.pid))
        ask = subprocess.Popen([*enter, sys.executable, "-c", REFUSES])  # noqa: ASYNC220
        assert await harness.code(ask) == 0


@pytest.mark.spec("O4")
@run_async
async def test_several_programs_are_one_machine(tmp_path: Path) -> None:
    """Each has an endpoint, an impact happens to all, and is over when it is for all."""
    async with process_harness(tmp_path) as harness:
        await harness.counting()
        slow = await harness.counting(options=("--grace", "0.3"))
        await harness.counting(machine="web_1")
        assert sorted(harness.listeners.open) == ["web_0", "web_0", "web_1"]
        assert await harness.over(harness.hit("reboot")) == ""
        await wait_until_async(
            lambda: all(harness.log(n).count("started") == 2 for n in (0, 1)), "both restart"
        )
        assert harness.log(2) == ["started"]
        slow.send_signal(signal.SIGTERM)
        assert await harness.code(slow) == 0
        await wait_until_async(
            lambda: sorted(harness.listeners.open) == ["web_0", "web_1"], "its listener closes"
        )
        assert await harness.over(harness.hit("delete")) == ""
        assert harness.log(2) == ["started"]


@pytest.mark.spec("O4")
@run_async
async def test_a_temporary_disk_that_cannot_be_emptied_is_reported(tmp_path: Path) -> None:
    """The redeploy has failed, and says why; the machine runs all the same."""
    async with process_harness(tmp_path) as harness:
        await harness.counting()
        shutil.rmtree(harness.data / "machines")
        assert "No such file" in await harness.over(harness.hit("redeploy"))
        await wait_until_async(
            lambda: harness.log() == ["started", "ended", "started"], "it starts again"
        )


@run_async
async def test_machines_without_a_program_are_for_others(tmp_path: Path) -> None:
    """Whoever does not use exec has the simulated driver, as before."""
    async with process_harness(tmp_path) as harness:
        assert await harness.over(harness.hit("reboot")) == ""
        assert harness.fallback.given == ["impact 1"]


@pytest.mark.spec("O4")
@run_async
async def test_exec_killed_the_hard_way(tmp_path: Path) -> None:
    """No process is left, the impact under way is over, and says why it failed."""
    async with process_harness(tmp_path) as harness:
        program = await harness.counting()
        freeze = harness.hit("freeze", seconds=600)
        await wait_until_async(lambda: frozen(harness.inhabitants()), "it is stopped")
        program.kill()
        assert await harness.over(freeze) == "the program that is web_0 went away"
        await wait_until_async(lambda: not harness.left(), "nothing is left behind")
        assert harness.listeners.open == []
