"""The command driver: a program for each impact, its input, its results and its failures."""

import json
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from fairwarning.core.errors import Refused
from fairwarning.machines.command import keepers
from fairwarning.machines.command.driver import MAX_CONCURRENT, CommandDriver
from tests.fixtures.waiting import wait_until_async
from tests.machines.command_harness import (
    NOTES,
    QUICK,
    WAITS,
    CommandHarness,
    in_both_loops,
    with_command_harness,
)
from tests.machines.harness import steady

# Writes far more than a pipe holds, and then the peak memory of its keeper.
FLOOD = """
head -c 30000000 /dev/zero
head -c 30000000 /dev/zero | tr '\\0' x >&2
echo >&2
sed -n 's/VmHWM:[[:space:]]*\\([0-9]*\\) kB/\\1/p' /proc/$PPID/status >&2
exit 1
"""


@in_both_loops
async def test_the_input_of_a_program(harness: CommandHarness, tmp_path: Path) -> None:
    """It gets the impact as a JSON object and as variables, and little else of our environment."""
    os.environ["PGPASSWORD"] = "secret"
    assert await harness.outcome('cat > "$0/stdin"; env > "$0/env"') == ""
    del os.environ["PGPASSWORD"]
    assert json.loads((tmp_path / "stdin").read_text()) == {
        "id": "one",
        "kind": "reboot",
        "scope": "web",
        "machine": "web_0",
        "event": "event",
        "operation": "restart",
        "duration_seconds": -1,
        "repeat": False,
    }
    seen = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
    assert {name: seen[name] for name in seen if name.startswith("FAIRWARNING_")} == {
        "FAIRWARNING_IMPACT_ID": "one",
        "FAIRWARNING_KIND": "reboot",
        "FAIRWARNING_SCOPE": "web",
        "FAIRWARNING_MACHINE": "web_0",
        "FAIRWARNING_EVENT_ID": "event",
        "FAIRWARNING_OPERATION_ID": "restart",
        "FAIRWARNING_REPEAT": "0",
    }
    assert seen["PATH"] == os.environ["PATH"]
    assert "PGPASSWORD" not in seen


@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("exit 0", ""),
        ("echo all is well >&2", ""),
        ("exit 3", "exit code 3"),
        ("echo one >&2; echo two >&2; echo >&2; exit 3", "exit code 3: two"),
        ("echo not on stderr; exit 1", "exit code 1"),
        ("kill -KILL $$", "ended by signal SIGKILL"),
        ("kill -40 $$", "ended by signal 40"),
        (
            r"printf 'caf\351 \033[31m\n' >&2; exit 1",
            "exit code 1: caf\N{REPLACEMENT CHARACTER} \\x1b[31m",
        ),
        ("exec 0<&- 1>&- 2>&-; exit 4", "exit code 4"),
        (FLOOD.partition("sed")[0] + "echo enough >&2; exit 5", "exit code 5: enough"),
    ],
)
@with_command_harness
async def test_the_exit_of_a_program(harness: CommandHarness, script: str, error: str) -> None:
    """Exit code 0 is success; otherwise the reason includes the last line of stderr."""
    assert await harness.outcome(script) == error


@with_command_harness
async def test_output_is_bounded(harness: CommandHarness) -> None:
    """A program may write any amount: nothing blocks, and only the end of it is kept."""
    error = await harness.outcome(FLOOD)
    assert int(error.removeprefix("exit code 1: ")) < 32_000  # KiB; an interpreter has 12,000


@in_both_loops
async def test_a_program_that_takes_too_long(harness: CommandHarness) -> None:
    """Its whole process group gets SIGTERM; processes that do not end are killed."""
    script = (
        f"""{NOTES} trap 'echo asked >> "$0/log"; exit 0' TERM\n"""
        f"(trap '' TERM; {NOTES} sleep 100) & wait; sleep 100"
    )
    assert await harness.outcome(script, seconds=0.5) == "took too long and was ended"
    assert harness.words().count("asked") == 1
    group = int(harness.log()[0][3])
    await wait_until_async(lambda: _ended(group), "the group has ended")


@with_command_harness
async def test_processes_that_a_program_leaves_running(harness: CommandHarness) -> None:
    """The driver neither ends nor waits for them, even if they hold files open."""
    assert await harness.outcome(f"(sleep 100) & {QUICK}") == ""
    assert not _ended(int(harness.log()[0][3]))


@in_both_loops
async def test_the_number_of_concurrent_programs_is_limited(harness: CommandHarness) -> None:
    """Impacts of different machines run concurrently, up to a limit."""
    harness.start_driver(WAITS)
    names = [f"impact{number}" for number in range(MAX_CONCURRENT + 3)]
    for name in names:
        harness.submit(name, machine=name)
    await harness.wait_for_runs(MAX_CONCURRENT)
    assert await steady(harness.words)
    harness.release()
    assert {await harness.result(name) for name in names} == {""}


@in_both_loops
async def test_impacts_of_one_machine_keep_their_order(harness: CommandHarness) -> None:
    """They run one at a time; impacts of other machines do not wait for them."""
    harness.start_driver(WAITS)
    for name in ("one", "two", "three"):
        harness.submit(name)
    harness.submit("other", machine="web_1")
    await harness.wait_for_runs(2)
    assert {line[1] for line in harness.log()} == {"one", "other"}
    harness.release()
    await harness.result("three")
    mine = [line[:2] for line in harness.log() if line[1] != "other"]
    assert mine == [[word, name] for name in ("one", "two", "three") for word in ("begun", "ended")]


@with_command_harness
async def test_nothing_starts_after_the_service_has_given_up(harness: CommandHarness) -> None:
    """An impact whose limit passes while it waits does not start (IL5)."""
    now = [0.0]
    harness.start_driver(WAITS, now=lambda: now[0])
    harness.submit("one", limit_seconds=100)
    harness.submit("two", limit_seconds=100)
    await harness.wait_for_runs()
    now[0] = 100.0
    harness.release()
    assert await harness.result("one") == ""
    assert await harness.result("two") == "not started: the service has given the impact up"
    assert harness.words() == ["begun", "ended"]


@with_command_harness
async def test_a_program_ends_by_the_limit_of_the_impact(harness: CommandHarness) -> None:
    """The impact's own limit counts if it is shorter than the timeout."""
    harness.start_driver(WAITS)
    harness.submit(limit_seconds=1)
    assert await harness.result() == "took too long and was ended"


@pytest.mark.spec("E9")
@with_command_harness
async def test_a_program_may_run_for_the_announced_duration(harness: CommandHarness) -> None:
    """A timeout that is shorter does not end it."""
    harness.start_driver("sleep 0.5", seconds=0.1)
    harness.submit(announced_seconds=600)
    assert await harness.result() == ""


@pytest.mark.parametrize(
    "make",
    [
        lambda path: CommandDriver([], state=path),
        lambda path: CommandDriver(["no-such-program"], state=path),
        lambda path: CommandDriver([str(path)], state=path),
        lambda path: CommandDriver(["true"], check=["no-such-program"], state=path),
    ],
)
def test_a_program_that_does_not_exist(make: Callable[[Path], object], tmp_path: Path) -> None:
    """The service fails at its start, not at the first impact."""
    with pytest.raises(Refused, match="name a program that this user may run"):
        make(tmp_path)


@with_command_harness
async def test_a_program_that_cannot_be_started(harness: CommandHarness, tmp_path: Path) -> None:
    """The impact fails with the reason. Once the program is fixed, it can be tried again."""
    program = tmp_path / "impact"
    program.write_text("#!/nowhere\n")
    program.chmod(0o700)
    driver = CommandDriver([str(program)], state=harness.state)
    harness.drivers.append(driver)
    harness.submit()
    assert await harness.result() == f"cannot be started: No such file or directory: {program}"
    program.write_text("#!/bin/sh\n")
    harness.submit()
    assert await harness.result(times=2) == ""


@with_command_harness
async def test_a_state_folder_that_cannot_be_written(
    harness: CommandHarness, tmp_path: Path
) -> None:
    """The driver runs nothing, as it could not tell later what it did."""
    (tmp_path / "state").write_text("no folder")
    error = await harness.outcome(QUICK)
    assert error.startswith("not started: ")
    assert str(harness.state) in error
    assert harness.log() == []


@in_both_loops
async def test_the_parent_of_the_keepers_is_killed(harness: CommandHarness) -> None:
    """Running keepers continue; the next impact starts a new parent."""
    driver = harness.start_driver(WAITS)
    harness.submit("one")
    await harness.wait_for_runs()
    os.kill(driver._keepers.parent, signal.SIGKILL)
    harness.submit("two", machine="web_1")
    await harness.wait_for_runs(2)
    harness.release()
    assert (await harness.result("one"), await harness.result("two")) == ("", "")
    assert [line[2] for line in harness.log() if line[0] == "begun"] == ["0", "0"]


@with_command_harness
async def test_the_parent_of_the_keepers_is_stopped(
    harness: CommandHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its impacts fail at their limits and leave their slots to others; running keepers go on."""
    monkeypatch.setattr(keepers, "_ANSWER_SECONDS", 0.0)
    driver = harness.start_driver(WAITS, now=time.monotonic)
    harness.submit("running")
    await harness.wait_for_runs()
    os.kill(driver._keepers.parent, signal.SIGSTOP)
    silent = [f"silent-{number}" for number in range(MAX_CONCURRENT - 1)]
    for name in silent:
        harness.submit(name, machine=name, limit_seconds=1)
    harness.submit("next", machine="next")
    for name in silent:
        assert await harness.result(name) == keepers._SILENT
    await harness.wait_for_runs(2)
    assert driver.problem == keepers._SILENT
    harness.release()
    assert (await harness.result("running"), await harness.result("next")) == ("", "")
    assert driver.problem == ""


@with_command_harness
async def test_keepers_hold_no_files_of_the_service(harness: CommandHarness) -> None:
    """Sockets and locks of the service are released when it ends."""
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    await harness.begin(WAITS)
    os.close(writing)
    os.set_blocking(reading, False)
    assert os.read(reading, 1) == b""
    os.close(reading)


def _ended(group: int) -> bool:
    """Return whether no process of the group runs; a zombie does not count."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has just ended
            state, _, its_group, *_ = stat.read_text().rpartition(")")[2].split()
            if int(its_group) == group and state not in "ZX":
                return False
    return True
