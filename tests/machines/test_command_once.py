"""The command driver executes each impact once, whichever process is killed (E9, IL5)."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairwarning.machines.command.driver import CommandDriver
from fairwarning.machines.command.program import start_time
from fairwarning.machines.command.record import KEPT_DAYS
from tests.fixtures.hidden_proc import run_python
from tests.fixtures.programs import ROOT
from tests.fixtures.waiting import wait_until_async
from tests.machines.command_harness import (
    QUICK,
    WAITS,
    CommandHarness,
    in_both_loops,
    with_command_harness,
)
from tests.machines.harness import steady

pytestmark = pytest.mark.spec("E9")

CHECKS = 'echo "check $FAIRWARNING_IMPACT_ID $FAIRWARNING_REPEAT" >> "$0/log"\n'


def runs(harness: CommandHarness) -> list[list[str]]:
    """Return, for each run so far, the impact and whether it was marked as a repetition."""
    return [line[1:3] for line in harness.log() if line[0] == "begun"]


def never_concurrent(harness: CommandHarness) -> bool:
    """Return whether each run of the impact started after the previous one had ended."""
    words = harness.words()
    return words == ["begun", "ended"] * (len(words) // 2)


def has_keepers(driver: CommandDriver) -> bool:
    """Return whether the driver has running keepers."""
    parent = driver._keepers.parent
    return bool(parent and Path(f"/proc/{parent}/task/{parent}/children").read_text())


# --- Repeated impacts -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "error"),
    [(QUICK, ""), (QUICK + "echo no such host >&2; exit 3", "exit code 3: no such host")],
)
@with_command_harness
async def test_an_executed_impact_is_not_repeated(
    harness: CommandHarness, script: str, error: str
) -> None:
    """The same driver and the next one report the same result without running the program."""
    assert await harness.outcome(script) == error
    path = record(harness)
    modes = [entry.stat().st_mode & 0o777 for entry in (path, path.parent)]
    assert modes == [0o600, 0o700]  # a record has the name of a machine
    harness.submit()
    assert await harness.result(times=2) == error
    harness.start_driver(QUICK)
    harness.submit()
    assert await harness.result(times=3) == error
    harness.submit("another")
    assert await harness.result("another") == ""
    assert runs(harness) == [["one", "0"], ["another", "0"]]


@in_both_loops
async def test_two_drivers_at_once(harness: CommandHarness) -> None:
    """Two processes of a host get the same impact: one runs it, and both report the result."""
    for _ in range(2):
        harness.start_driver(WAITS)
        harness.submit()
    await harness.wait_for_runs()
    assert await steady(harness.words)
    harness.release()
    assert await harness.result(times=2) == ""
    assert harness.reports["one"] == ["", ""]
    assert runs(harness) == [["one", "0"]]


# --- Closed and killed services -------------------------------------------------------------------


@in_both_loops
async def test_a_program_outlives_a_closed_service(harness: CommandHarness) -> None:
    """It continues, and the next service reports its result. Waiting impacts do not start."""
    first = harness.start_driver(WAITS)
    harness.submit("one")
    harness.submit("two")
    await harness.wait_for_runs()
    await first.close()
    harness.submit("three")
    harness.release()
    await wait_until_async(lambda: "ended" in harness.words(), "it ends")
    assert await steady(harness.words)
    assert harness.reports == {}
    harness.start_driver(WAITS)
    harness.submit("two")
    harness.submit("one")
    assert (await harness.result("one"), await harness.result("two")) == ("", "")
    assert runs(harness) == [["one", "0"], ["two", "0"]]


@in_both_loops
async def test_a_waiting_keeper_does_not_start_once_its_service_is_closed(
    harness: CommandHarness,
) -> None:
    """A keeper whose service has ended leaves an impact that has not started to the next one."""
    await harness.begin(WAITS + "kill -KILL $PPID")
    second = harness.start_driver(WAITS)
    harness.submit()
    await wait_until_async(lambda: has_keepers(second), "it has a keeper")
    await second.close()
    await harness.drivers[0].close()
    harness.release()
    await wait_until_async(lambda: "ended" in harness.words(), "the first ends")
    assert await steady(harness.words)
    assert runs(harness) == [["one", "0"]]


@contextmanager
def service(folder: Path, script: str = WAITS) -> Iterator[subprocess.Popen[str]]:
    """A process with a fleet, a store on disk and a command driver."""
    command = (sys.executable, "-m", "tests.machines.command_service", str(folder), script)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def output(process: subprocess.Popen[str]) -> str:
    """Wait for the end of a service and return its output."""
    return (await asyncio.to_thread(process.communicate))[0].strip()


@with_command_harness
async def test_a_service_is_killed(harness: CommandHarness, tmp_path: Path) -> None:
    """After kill -9 the program continues, and the next service reports its result."""
    script = WAITS + "echo the disk is worn >&2; exit 7"
    with service(tmp_path, script) as first:
        await harness.wait_for_runs()
        first.kill()
        first.wait()
    with service(tmp_path, script) as second:
        assert await steady(harness.words)
        harness.release()
        assert await output(second) == "Failed exit code 7: the disk is worn"
    assert [line[2] for line in harness.log() if line[0] == "begun"] == ["0"]
    assert harness.words() == ["begun", "ended"]


@with_command_harness
async def test_all_but_the_program_are_killed(harness: CommandHarness, tmp_path: Path) -> None:
    """Its result is unknown: the next service waits for it and repeats it, marked as such."""
    with service(tmp_path) as first:
        await harness.wait_for_runs()
        first.kill()
        first.wait()
    os.kill(int(harness.log()[0][4]), signal.SIGKILL)
    with service(tmp_path) as second:
        assert await steady(harness.words)
        harness.release()
        assert await output(second) == "Succeeded"
    assert [repeat for _, repeat in runs(harness)] == ["0", "1"]
    assert never_concurrent(harness)


@in_both_loops
async def test_a_keeper_is_killed_beside_others(harness: CommandHarness) -> None:
    """Another keeper waits for its program and runs it again; no other impact is affected."""
    harness.start_driver(WAITS)
    for name in ("a", "b", "c"):
        harness.submit(name, machine=name)
    await harness.wait_for_runs(3)
    os.kill(int(harness.log()[0][4]), signal.SIGKILL)
    for name in ("d", "e", "f"):  # they start at that moment
        harness.submit(name, machine=name)
    await harness.wait_for_runs(6)
    assert await steady(harness.words)
    harness.release()
    assert {await harness.result(name) for name in "abcdef"} == {""}
    repeated = [name for name, repeat in runs(harness) if repeat == "1"]
    assert repeated == [harness.log()[0][1]]
    assert len(runs(harness)) == 7


@with_command_harness
async def test_a_program_without_a_keeper_takes_too_long(harness: CommandHarness) -> None:
    """The next keeper ends it and does not repeat it."""
    await harness.begin("trap '' TERM\n" + WAITS, seconds=1.0)
    os.kill(int(harness.log()[0][4]), signal.SIGKILL)
    assert await harness.result() == "took too long and was ended"
    assert harness.words() == ["begun"]


START_TIMES = """
import os
from fairwarning.machines.command.program import start_time
for process in (os.getpid(), os.getppid()):
    print(start_time(process))
"""


@pytest.mark.parametrize("boot", ["", "b007"])
def test_programs_have_a_start_time_in_a_sandbox_that_hides_the_boot_id(boot: str) -> None:
    """Otherwise an orphan would not be waited for, and its impact would be executed beside it."""
    own, other = run_python(START_TIMES, FAIRWARNING_BOOT_ID=boot)
    assert own.rpartition(" ")[0] == other.rpartition(" ")[0] == boot
    assert own != other


@with_command_harness
async def test_all_processes_get_sigterm(harness: CommandHarness) -> None:
    """As when systemd stops the control group: not a failure; the next service repeats it."""
    first = await harness.begin(WAITS)
    program, keeper = map(int, harness.log()[0][3:])
    os.killpg(program, signal.SIGTERM)
    os.kill(keeper, signal.SIGTERM)
    await wait_until_async(lambda: not start_time(keeper), "the keeper has ended")
    assert await steady(lambda: dict(harness.reports))
    assert harness.reports == {}
    await first.close()
    harness.start_driver(QUICK)
    harness.submit()
    assert await harness.result() == ""
    assert runs(harness) == [["one", "0"], ["one", "1"]]


@with_command_harness
async def test_a_program_that_finishes_after_sigterm_to_all(harness: CommandHarness) -> None:
    """The impact was executed."""
    await harness.begin("trap '' TERM\n" + WAITS)
    program, keeper = map(int, harness.log()[0][3:])
    os.kill(keeper, signal.SIGTERM)
    os.killpg(program, signal.SIGTERM)
    harness.release()
    assert await harness.result() == ""
    harness.start_driver(QUICK)
    harness.submit()
    assert await harness.result(times=2) == ""
    assert runs(harness) == [["one", "0"]]


# --- Impacts executed on another host -------------------------------------------------------------


@pytest.mark.parametrize(("code", "words"), [(0, ["check"]), (1, ["check", "begun", "ended"])])
@with_command_harness
async def test_check(harness: CommandHarness, code: int, words: list[str], tmp_path: Path) -> None:
    """It gets the same input as the program. 0 means executed, 1 means not executed."""
    check = f'{CHECKS} cat > "$0/stdin"; exit {code}'
    assert await harness.outcome(QUICK, check=check) == ""
    assert harness.words() == words
    assert json.loads((tmp_path / "stdin").read_text())["machine"] == "web_0"
    harness.submit()
    assert await harness.result(times=2) == ""
    assert harness.words() == words


@with_command_harness
async def test_a_check_that_cannot_tell(harness: CommandHarness) -> None:
    """It runs again; until it can tell, the program does not run. The next driver may try."""
    check = CHECKS + "echo no route to host >&2; exit 2"
    error = await harness.outcome(QUICK, check=check, seconds=2.5)
    assert error == (
        "check cannot tell whether the impact was executed "
        "(exit code 2: no route to host), and there is no time left"
    )
    assert harness.words() == ["check", "check"]
    harness.start_driver(QUICK)
    harness.submit()
    assert await harness.result(times=2) == ""


@with_command_harness
async def test_check_runs_after_a_program_whose_result_is_unknown(harness: CommandHarness) -> None:
    """If the check finds that the program did its work, it is not repeated."""
    check = CHECKS + 'test -e "$0/done"'
    await harness.begin(WAITS + 'touch "$0/done"', check=check)
    os.kill(int(harness.log()[1][4]), signal.SIGKILL)
    harness.release()
    assert await harness.result() == ""
    assert harness.log()[-1] == ["check", "one", "1"]
    assert runs(harness) == [["one", "0"]]


# --- The records ----------------------------------------------------------------------------------


def record(harness: CommandHarness) -> Path:
    """Return the path of the only record."""
    (path,) = [path for path in harness.state.glob("*/*") if path.name != "tidied"]
    return path


@with_command_harness
async def test_an_incomplete_record(harness: CommandHarness) -> None:
    """After a power loss in the middle of a line, that line counts as not written."""
    assert await harness.outcome(QUICK) == ""
    path = record(harness)
    whole = path.read_bytes()
    path.write_bytes(whole[: whole.index(b'"ended"') + 10])
    for times in (2, 3):
        harness.submit()
        assert await harness.result(times=times) == ""
    assert runs(harness) == [["one", "0"], ["one", "1"]]


@with_command_harness
async def test_old_records_are_removed(harness: CommandHarness) -> None:
    """After some weeks, once a day, by a keeper that uses the folder; not by a clock that jumps."""
    assert await harness.outcome(QUICK) == ""
    path = record(harness)
    marker = path.parent / "tidied"
    await wait_until_async(marker.exists, "the first cleanup is done")
    now, day = time.time(), 24 * 3600
    old = now - (KEPT_DAYS + 2) * day
    for name, modified in {"old": old, "older": old, "oldest": old - (now - old)}.items():
        (path.parent / name).touch()
        os.utime(path.parent / name, (modified, modified))
    left = {path.name, "tidied", "old", "older", "oldest"}
    cleanups = (now, ""), (now + day, ""), (old, "oldest"), (now - day, "old older")
    for times, (last, removed) in enumerate(cleanups, 2):
        os.utime(marker, (last, last))
        harness.submit()
        await harness.result(times=times)
        left -= {*removed.split()}
        await wait_until_async(lambda: abs(marker.stat().st_mtime - now) < 3600, "it has run")
        assert {entry.name for entry in path.parent.iterdir()} == left
