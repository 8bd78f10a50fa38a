"""The process driver: executes impacts on the programs of a machine."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.fixtures.requirements import needs_namespaces, needs_nsenter
from tests.fixtures.waiting import wait_until_async
from tests.machines.harness import steady
from tests.machines.process_harness import (
    NONE,
    ProcessHarness,
    process_harness,
    with_process_harness,
)

pytestmark = [needs_namespaces, pytest.mark.spec("O4")]

# Leaves its parent, its process group and its session, and ignores SIGTERM.
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

# Waits for a child as shells do, and prints its state changes.
SHELL = """
import os, time
child = os.fork()
if child == 0:
    time.sleep(1000)
print("waits", flush=True)
while True:
    print(os.waitpid(child, os.WUNTRACED), flush=True)
"""

# Checks, from inside the machine's network, that the endpoint refuses connections.
REFUSES = """
import socket
try:
    socket.create_connection(("169.254.169.254", 80))
except ConnectionRefusedError:
    raise SystemExit(0)
raise SystemExit("the connection was accepted")
"""


def states(pids: list[int]) -> set[str]:
    """Return the states of processes: S sleeping, R running, T stopped, D blocked in the kernel."""
    process_states = set()
    for pid in pids:
        with suppress(OSError):  # the process has just ended
            process_states.add(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0])
    return process_states


def frozen(pids: list[int]) -> bool:
    """Return whether all are stopped; a parent may be blocked waiting for a stopped child."""
    return "T" in states(pids) and not states(pids) & {"R", "S"}


@pytest.mark.parametrize("options", [(), pytest.param(NONE, marks=pytest.mark.spec("O12"))])
@with_process_harness
async def test_a_frozen_machine_is_stopped(
    harness: ProcessHarness, options: tuple[str, ...]
) -> None:
    """All its processes are stopped for the announced duration; then they continue."""
    await harness.start_counter(options=options)
    freeze = harness.submit("freeze", seconds=1)
    await wait_until_async(lambda: frozen(harness.processes_inside()), "it is stopped")
    assert await steady(harness.count)
    assert freeze not in harness.reports
    assert await harness.result(freeze) == ""
    count = harness.count()
    await wait_until_async(lambda: harness.count() > count, "it goes on")
    assert harness.log() == ["started"]
    assert harness.messages()[-1] == "fairwarning: web_0 is frozen for 1 s"


@with_process_harness
async def test_a_freeze_does_not_look_like_a_suspended_child(harness: ProcessHarness) -> None:
    """A shell must not take its child for one suspended by the user."""
    harness.start(sys.executable, "-c", SHELL)
    await wait_until_async(lambda: harness.out() != "", "it waits")
    for seconds in (0, 0, 0, 1):
        assert await harness.result(harness.submit("freeze", seconds=seconds)) == ""
    await wait_until_async(lambda: states(harness.processes_inside()) == {"S"}, "it goes on")
    assert await steady(harness.out)
    assert harness.out() == "waits\n"


@with_process_harness
async def test_a_program_can_stop_its_own_processes(harness: ProcessHarness) -> None:
    """Only the program gets SIGTERM at first; a process that it leaves gets it afterwards."""
    child = "trap 'echo child; exit 0' TERM; echo here; while :; do sleep 0.01; done"
    program = "trap 'sleep 0.5; echo program; exit 0' TERM; sh -c \"$0\" & wait"
    harness.start("sh", "-c", program, child)
    await wait_until_async(lambda: harness.out() != "", "both run")
    assert await harness.result(harness.submit("stop")) == ""
    assert harness.out().split() == ["here", "program", "child"]


@with_process_harness
async def test_a_program_that_does_not_end_is_killed(
    harness: ProcessHarness, tmp_path: Path
) -> None:
    """After its grace period, and so are all processes it started, however hidden."""
    pids = tmp_path / "pids"
    harness.start(
        sys.executable,
        "-c",
        DAEMON.format(pids=str(pids)),
        options=("--grace", "0.2", "--quiet"),
    )
    await wait_until_async(pids.exists, "the daemon runs")
    await wait_until_async(
        lambda: len(harness.processes_inside()) == 2, "the program and its daemon run"
    )
    before = harness.processes_inside()
    assert await harness.result(harness.submit("reboot")) == ""
    await wait_until_async(lambda: len(harness.processes_inside()) == 2, "both run again")
    assert not set(before) & set(harness.processes_inside())
    assert harness.err() == ""


@pytest.mark.parametrize(
    ("kind", "handed_over"), [("reboot", True), ("redeploy", True), ("stop", False)]
)
async def test_once_ends_with_the_first_impact(
    tmp_path: Path, kind: str, *, handed_over: bool
) -> None:
    """The program ends, exec ends with its exit code, and the machine boots without it."""
    async with process_harness(tmp_path) as harness:
        program = await harness.start_counter(options=("--once",))
        (harness.temporary / "file").write_text("text")
        assert await harness.result(harness.submit("freeze", seconds=0)) == ""
        impact = harness.submit(kind)
        assert await harness.exit_code(program) == 0
        assert await harness.result(impact) == ""
        assert harness.log() == ["started", "ended"]
        assert harness.fallback.executed == ([impact] if handed_over else [])
        assert (harness.temporary / "file").exists() == (kind != "redeploy")


@pytest.mark.parametrize("kind", ["redeploy", "reimage"])
@with_process_harness
async def test_a_redeploy_empties_the_temporary_disk(
    harness: ProcessHarness, tmp_path: Path, kind: str
) -> None:
    """Other files stay. A reboot leaves the temporary disk as it is."""
    await harness.start_counter()
    (harness.temporary / "folder").mkdir()
    (harness.temporary / "folder" / "file").write_text("text")
    (harness.temporary / "file").write_text("text")
    (harness.temporary / "link").symlink_to(tmp_path)
    assert await harness.result(harness.submit("reboot")) == ""
    assert len(list(harness.temporary.iterdir())) == 3
    await harness.started(2)
    assert await harness.result(harness.submit(kind)) == ""
    assert list(harness.temporary.iterdir()) == []
    await harness.started(3)
    assert harness.count() > 0


@pytest.mark.parametrize("kind", ["evict", "delete"])
@with_process_harness
async def test_impacts_that_end_the_machine(harness: ProcessHarness, kind: str) -> None:
    """Program and exec end, the temporary disk is lost, and the fallback driver takes over."""
    program = await harness.start_counter()
    (harness.temporary / "file").touch()
    assert await harness.result(harness.submit(kind)) == ""
    assert list(harness.temporary.iterdir()) == []
    assert await harness.exit_code(program) == 0
    assert harness.log() == ["started", "ended"]
    assert harness.err().startswith(f"fairwarning: web_0 is {kind}")
    await wait_until_async(lambda: not harness.listeners.open, "the listener closes")
    assert await harness.result(harness.submit("start")) == ""
    assert harness.fallback.executed == ["impact 2"]


@pytest.mark.parametrize("kind", ["stop", "deallocate"])
@with_process_harness
async def test_a_stopped_machine_can_be_started(harness: ProcessHarness, kind: str) -> None:
    """Exec waits without a program; only a deallocated machine has lost its temporary disk."""
    program = await harness.start_counter()
    file = harness.temporary / "file"
    file.touch()
    assert await harness.result(harness.submit(kind)) == ""
    assert file.exists() == (kind == "stop")
    assert harness.log() == ["started", "ended"]
    assert harness.processes_inside() == []
    assert harness.listeners.open == []
    assert program.poll() is None
    assert await harness.result(harness.submit("start")) == ""
    assert await harness.result(harness.submit("start")) == ""
    await harness.logged("started", "ended", "started")
    assert harness.listeners.open == ["web_0"]


@with_process_harness
async def test_exec_into_a_stopped_machine_waits(harness: ProcessHarness) -> None:
    """It says so, and runs the program once the machine is started."""
    program = harness.start("echo", "here", machine="off")
    waits = ["fairwarning: off is deallocated; it waits to be started"]
    await wait_until_async(lambda: harness.messages() == waits, "it waits")
    assert await steady(harness.out)
    assert harness.listeners.open == []
    assert await harness.result(harness.submit("start", "off")) == ""
    assert await harness.exit_code(program) == 0
    assert harness.out() == "here\n"


@with_process_harness
async def test_exec_into_a_machine_that_is_being_started(harness: ProcessHarness) -> None:
    """The fallback driver starts it; then the program runs."""
    harness.fallback.hold = True
    start = harness.submit("start", "off")
    program = harness.start("echo", "here", machine="off")
    await wait_until_async(lambda: harness.messages() != [], "it waits")
    harness.fallback.finish()
    assert await harness.result(start) == ""
    assert await harness.exit_code(program) == 0
    assert harness.out() == "here\n"


@with_process_harness
async def test_a_signal_ends_a_rebooting_machine(harness: ProcessHarness) -> None:
    """Exec ends at once, without waiting for its program."""
    command = ("sh", "-c", "trap '' TERM; echo here; while :; do sleep 0.01; done")
    program = harness.start(*command, options=("--grace", "1000"))
    await wait_until_async(lambda: harness.out() != "", "it runs")
    reboot = harness.submit("reboot")
    await wait_until_async(lambda: harness.messages() != [], "it is told to end")
    program.send_signal(signal.SIGTERM)
    assert await harness.exit_code(program) == 143
    assert await harness.result(reboot) == "the program of web_0 disconnected"


@needs_nsenter
@with_process_harness
async def test_the_endpoint_of_a_machine_that_is_down_refuses(
    harness: ProcessHarness,
) -> None:
    """Connections are refused inside the machine's network."""
    program = await harness.start_counter()
    assert await harness.result(harness.submit("stop")) == ""
    user = () if os.geteuid() == 0 else ("--user", "--preserve-credentials")
    enter = ("nsenter", *user, "--net", "-t", str(program.pid))
    ask = subprocess.Popen([*enter, sys.executable, "-c", REFUSES])  # noqa: ASYNC220
    assert await harness.exit_code(ask) == 0
    program.send_signal(signal.SIGUSR1)  # no program to forward signals to: they end exec
    program.send_signal(signal.SIGTERM)
    assert await harness.exit_code(program) == 143


@with_process_harness
async def test_several_programs_of_one_machine(harness: ProcessHarness) -> None:
    """Each has an endpoint; an impact is executed on all and finished when all have finished."""
    await harness.start_counter()
    slow = await harness.start_counter(options=("--grace", "0.3"))
    await harness.start_counter(machine="web_1")
    assert sorted(harness.listeners.open) == ["web_0", "web_0", "web_1"]
    assert await harness.result(harness.submit("reboot")) == ""
    await wait_until_async(
        lambda: all(harness.log(n).count("started") == 2 for n in (0, 1)), "both restart"
    )
    assert harness.log(2) == ["started"]
    slow.send_signal(signal.SIGTERM)
    assert await harness.exit_code(slow) == 0
    await wait_until_async(
        lambda: sorted(harness.listeners.open) == ["web_0", "web_1"], "its listener closes"
    )
    assert await harness.result(harness.submit("delete")) == ""
    assert harness.log(2) == ["started"]


@pytest.mark.parametrize("kind", ["reboot", "redeploy"])
@with_process_harness
async def test_a_temporary_disk_that_is_gone_is_made_again(
    harness: ProcessHarness, kind: str
) -> None:
    """The program may remove its own disk and the folders above it."""
    await harness.start_counter()
    shutil.rmtree(harness.data / "machines")
    assert await harness.result(harness.submit(kind)) == ""
    assert list(harness.temporary.iterdir()) == []
    await harness.started(2)


@with_process_harness
async def test_a_temporary_disk_that_cannot_be_emptied_is_reported(
    harness: ProcessHarness, tmp_path: Path
) -> None:
    """The redeploy fails with the reason; the program is started all the same."""
    await harness.start_counter()
    moved = harness.data.rename(tmp_path / "moved")
    assert "No such file" in await harness.result(harness.submit("redeploy"))
    await harness.logged("started", "ended", "started")
    moved.rename(harness.data)


@with_process_harness
async def test_exec_is_killed(harness: ProcessHarness) -> None:
    """No process remains, and the impact in progress fails with the reason."""
    program = await harness.start_counter()
    freeze = harness.submit("freeze", seconds=600)
    await wait_until_async(lambda: frozen(harness.processes_inside()), "it is stopped")
    program.kill()
    assert await harness.result(freeze) == "the program of web_0 disconnected"
    await wait_until_async(lambda: not harness.remaining_processes(), "no process remains")
    assert harness.listeners.open == []
