"""The command driver can tell what it carried out, whoever is killed in between (E9, IL5)."""

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
from fairwarning.machines.command.program import birth
from fairwarning.machines.command.record import KEPT_DAYS
from tests.fixtures.programs import ROOT
from tests.fixtures.waiting import run_async, wait_until_async
from tests.machines.command_harness import (
    QUICK,
    WAITS,
    CommandDriverHarness,
    command_harness,
    in_both_loops,
)
from tests.machines.process_harness import steady

pytestmark = pytest.mark.spec("E9")

CHECKS = 'echo "check $FAIRWARNING_IMPACT $FAIRWARNING_REPEAT" >> "$0/log"\n'


def runs(it: CommandDriverHarness) -> list[list[str]]:
    """Which impact, and whether it may have been begun before, of each run so far."""
    return [line[1:3] for line in it.log() if line[0] == "begun"]


def one_at_a_time(it: CommandDriverHarness) -> bool:
    """Whether no run of the impact began before the one before it ended."""
    words = it.words()
    return words == ["begun", "ended"] * (len(words) // 2)


def keepers_of(driver: CommandDriver) -> bool:
    """Whether it has any."""
    parent = driver._keepers._process
    return bool(parent and Path(f"/proc/{parent}/task/{parent}/children").read_text())


# --- Handed over again ----------------------------------------------------------------------------


@in_both_loops
async def test_what_was_carried_out_is_not_done_again(tmp_path: Path) -> None:
    """The same impact again, to the same driver or to the next one: the same report, no act."""
    async with command_harness(tmp_path) as it:
        assert await it.outcome(QUICK) == ""
        it.hit()
        assert await it.over(times=2) == ""
        it.begin(QUICK)
        it.hit()
        assert await it.over(times=3) == ""
        it.hit("another")
        assert await it.over("another") == ""
        assert runs(it) == [["one", "0"], ["another", "0"]]


@run_async
async def test_what_failed_has_failed(tmp_path: Path) -> None:
    """An impact that was tried is not tried again behind the back of whoever was told."""
    async with command_harness(tmp_path) as it:
        script = QUICK + "echo no such host >&2; exit 3"
        assert await it.outcome(script) == "exit code 3: no such host"
        it.begin(QUICK)
        it.hit()
        assert await it.over(times=2) == "exit code 3: no such host"
        assert runs(it) == [["one", "0"]]


@in_both_loops
async def test_two_drivers_at_once(tmp_path: Path) -> None:
    """Two processes of a host have the same impact: one acts, and both hear how it went."""
    async with command_harness(tmp_path) as it:
        for _ in range(2):
            it.begin(WAITS)
            it.hit()
        await it.begun()
        assert await steady(it.words)
        it.go()
        assert await it.over(times=2) == ""
        assert it.reports["one"] == ["", ""]
        assert runs(it) == [["one", "0"]]


# --- Closed and killed ----------------------------------------------------------------------------


@in_both_loops
async def test_a_program_outlives_a_service_that_is_closed(tmp_path: Path) -> None:
    """It is not cut off; the next service hears how it ended. What had not begun does not begin."""
    async with command_harness(tmp_path) as it:
        first = it.begin(WAITS)
        it.hit("one")
        it.hit("two")
        await it.begun()
        await first.close()
        it.hit("three")
        it.go()
        await wait_until_async(lambda: "ended" in it.words(), "it goes on")
        assert await steady(it.words)
        assert it.reports == {}
        it.begin(WAITS)
        it.hit("two")
        it.hit("one")
        assert (await it.over("one"), await it.over("two")) == ("", "")
        assert runs(it) == [["one", "0"], ["two", "0"]]


@in_both_loops
async def test_whoever_waits_for_another_does_not_begin_once_its_service_is_closed(
    tmp_path: Path,
) -> None:
    """A keeper whose service has hung up leaves what it has not begun to the next one."""
    async with command_harness(tmp_path) as it:
        it.begin(WAITS + "kill -KILL $PPID")
        it.hit()
        await it.begun()
        second = it.begin(WAITS)
        it.hit()
        await wait_until_async(lambda: keepers_of(second), "it has a keeper")
        await second.close()
        await it.drivers[0].close()
        it.go()
        await wait_until_async(lambda: "ended" in it.words(), "the first ends")
        assert await steady(it.words)
        assert runs(it) == [["one", "0"]]


@contextmanager
def service(folder: Path, script: str = WAITS) -> Iterator[subprocess.Popen[str]]:
    """A process with a fleet, a store on disk and a command driver."""
    command = (sys.executable, "-m", "tests.machines.command_service", str(folder), script)
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


async def said(process: subprocess.Popen[str]) -> str:
    """What a service says at its end."""
    return (await asyncio.to_thread(process.communicate))[0].strip()


@run_async
async def test_a_service_is_killed(tmp_path: Path) -> None:
    """With kill -9: the program goes on, and the next life of the service hears how it ended."""
    script = WAITS + "echo the disk is worn >&2; exit 7"
    async with command_harness(tmp_path) as it:
        with service(tmp_path, script) as first:
            await it.begun()
            first.kill()
            first.wait()
        with service(tmp_path, script) as second:
            assert await steady(it.words)
            it.go()
            assert await said(second) == "Failed exit code 7: the disk is worn"
        assert [line[2] for line in it.log() if line[0] == "begun"] == ["0"]
        assert it.words() == ["begun", "ended"]


@run_async
async def test_a_service_is_killed_and_its_program_ends_meanwhile(tmp_path: Path) -> None:
    """How it ended was written down."""
    async with command_harness(tmp_path) as it:
        with service(tmp_path) as first:
            await it.begun()
            first.kill()
            first.wait()
        it.go()
        await wait_until_async(lambda: "ended" in it.words(), "it goes on")
        with service(tmp_path) as second:
            assert await said(second) == "Succeeded"
        assert it.words() == ["begun", "ended"]


@run_async
async def test_all_but_the_program_are_killed(tmp_path: Path) -> None:
    """Nobody knows how it ended: it is waited for, and run again, being told so; never two."""
    async with command_harness(tmp_path) as it:
        with service(tmp_path) as first:
            await it.begun()
            first.kill()
            first.wait()
        os.kill(int(it.log()[0][4]), signal.SIGKILL)
        with service(tmp_path) as second:
            assert await steady(it.words)
            it.go()
            assert await said(second) == "Succeeded"
        assert [repeat for _, repeat in runs(it)] == ["0", "1"]
        assert one_at_a_time(it)


@in_both_loops
async def test_a_keeper_is_killed(tmp_path: Path) -> None:
    """The service lives: it gets another keeper, which waits for the program and runs it again."""
    async with command_harness(tmp_path) as it:
        it.begin(WAITS)
        it.hit()
        await it.begun()
        os.kill(int(it.log()[0][4]), signal.SIGKILL)
        assert await steady(it.words)
        it.go()
        assert await it.over() == ""
        assert runs(it) == [["one", "0"], ["one", "1"]]
        assert one_at_a_time(it)


@in_both_loops
async def test_a_keeper_is_killed_beside_others(tmp_path: Path) -> None:
    """Nobody else notices, neither those at work nor those that begin at that moment."""
    async with command_harness(tmp_path) as it:
        it.begin(WAITS)
        for name in ("a", "b", "c"):
            it.hit(name, machine=name)
        await it.begun(3)
        os.kill(int(it.log()[0][4]), signal.SIGKILL)
        for name in ("d", "e", "f"):
            it.hit(name, machine=name)
        it.go()
        assert {await it.over(name) for name in "abcdef"} == {""}
        again = [name for name, repeat in runs(it) if repeat == "1"]
        assert again == [it.log()[0][1]]
        assert len(runs(it)) == 7


@run_async
async def test_a_program_without_a_keeper_takes_too_long(tmp_path: Path) -> None:
    """It is ended by whoever comes next, and not run again."""
    async with command_harness(tmp_path) as it:
        it.begin("trap '' TERM\n" + WAITS, seconds=1.0)
        it.hit()
        await it.begun()
        os.kill(int(it.log()[0][4]), signal.SIGKILL)
        assert await it.over() == "took too long and was ended"
        assert it.words() == ["begun"]


@run_async
async def test_all_are_asked_to_end(tmp_path: Path) -> None:
    """As when systemd stops the whole control group: no failure, and run again by the next."""
    async with command_harness(tmp_path) as it:
        first = it.begin(WAITS)
        it.hit()
        await it.begun()
        program, keeper = map(int, it.log()[0][3:])
        os.killpg(program, signal.SIGTERM)
        os.kill(keeper, signal.SIGTERM)
        await wait_until_async(lambda: not birth(keeper), "the keeper has said so")
        assert await steady(lambda: dict(it.reports))
        assert it.reports == {}
        await first.close()
        it.begin(QUICK)
        it.hit()
        assert await it.over() == ""
        assert runs(it) == [["one", "0"], ["one", "1"]]


@run_async
async def test_a_program_that_finishes_although_all_are_asked_to_end(tmp_path: Path) -> None:
    """Then it was carried out."""
    async with command_harness(tmp_path) as it:
        it.begin("trap '' TERM\n" + WAITS)
        it.hit()
        await it.begun()
        program, keeper = map(int, it.log()[0][3:])
        os.kill(keeper, signal.SIGTERM)
        os.killpg(program, signal.SIGTERM)
        it.go()
        assert await it.over() == ""
        it.begin(QUICK)
        it.hit()
        assert await it.over(times=2) == ""
        assert runs(it) == [["one", "0"]]


# --- What another host has done -------------------------------------------------------------------


@pytest.mark.parametrize(("code", "words"), [(0, ["check"]), (1, ["check", "begun", "ended"])])
def test_check(code: int, words: list[str], tmp_path: Path) -> None:
    """It is told the same as the program: 0 means done, by whomever, and 1 not done."""

    @run_async
    async def play() -> None:
        async with command_harness(tmp_path) as it:
            check = f'{CHECKS} cat > "$0/stdin"; exit {code}'
            assert await it.outcome(QUICK, check=check) == ""
            assert it.words() == words
            assert json.loads((tmp_path / "stdin").read_text())["machine"] == "web_0"
            it.hit()
            assert await it.over(times=2) == ""
            assert it.words() == words

    play()


@run_async
async def test_a_check_that_cannot_tell(tmp_path: Path) -> None:
    """It is asked again; as long as it cannot tell, nothing is run. The next may try."""
    async with command_harness(tmp_path) as it:
        check = CHECKS + "echo no route to host >&2; exit 2"
        failed = await it.outcome(QUICK, check=check, seconds=2.5)
        assert failed == (
            "check cannot tell whether it was carried out already "
            "(exit code 2: no route to host), and there is no time left"
        )
        assert it.words() == ["check", "check"]
        it.begin(QUICK)
        it.hit()
        assert await it.over(times=2) == ""


@run_async
async def test_a_check_that_can_tell_in_the_end(tmp_path: Path) -> None:
    """Trouble that passes costs no more than a second or two."""
    async with command_harness(tmp_path) as it:
        check = CHECKS + 'if [ -e "$0/asked" ]; then exit 1; fi; touch "$0/asked"; exit 2'
        assert await it.outcome(QUICK, check=check) == ""
        assert it.words() == ["check", "check", "begun", "ended"]


@run_async
async def test_check_is_asked_about_a_program_that_nobody_saw_end(tmp_path: Path) -> None:
    """What it left done is not done again."""
    async with command_harness(tmp_path) as it:
        check = CHECKS + 'test -e "$0/done"'
        it.begin(WAITS + 'touch "$0/done"', check=check)
        it.hit()
        await it.begun()
        os.kill(int(it.log()[1][4]), signal.SIGKILL)
        it.go()
        assert await it.over() == ""
        assert it.log()[-1] == ["check", "one", "1"]
        assert runs(it) == [["one", "0"]]


# --- The records ----------------------------------------------------------------------------------


def record(it: CommandDriverHarness) -> Path:
    """The only one."""
    (found,) = [one for one in it.state.glob("*/*") if one.name != "tidied"]
    return found


@run_async
async def test_a_record_that_was_cut_off(tmp_path: Path) -> None:
    """A power loss in the middle of a line: what was not yet written did not happen."""
    async with command_harness(tmp_path) as it:
        assert await it.outcome(QUICK) == ""
        path = record(it)
        whole = path.read_bytes()
        path.write_bytes(whole[: whole.index(b'"ended"') + 10])
        for times in (2, 3):
            it.hit()
            assert await it.over(times=times) == ""
        assert runs(it) == [["one", "0"], ["one", "1"]]


@run_async
async def test_only_the_owner_can_read_them(tmp_path: Path) -> None:
    """Names of machines are nobody else's business."""
    async with command_harness(tmp_path) as it:
        assert await it.outcome(QUICK) == ""
        path = record(it)
        assert [one.stat().st_mode & 0o777 for one in (path, path.parent)] == [0o600, 0o700]


@run_async
async def test_old_records_are_removed(tmp_path: Path) -> None:
    """After some weeks, once a day, by whoever works beside them."""
    async with command_harness(tmp_path) as it:
        assert await it.outcome(QUICK) == ""
        path = record(it)
        await wait_until_async((path.parent / "tidied").exists, "the first has tidied")
        old = time.time() - (KEPT_DAYS + 1) * 24 * 3600
        for name in ("old", "older"):
            (path.parent / name).touch()
            os.utime(path.parent / name, (old, old))
        it.hit()
        await it.over(times=2)
        assert (path.parent / "old").exists()
        os.utime(path.parent / "tidied", (old, old))
        it.hit()
        await it.over(times=3)
        await wait_until_async(lambda: not (path.parent / "older").exists(), "they are removed")
        assert sorted(one.name for one in path.parent.iterdir()) == sorted([path.name, "tidied"])
