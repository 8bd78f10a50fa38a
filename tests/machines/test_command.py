"""The command driver: a program for each impact, what it is told, and whatever it may do."""

import json
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from fairwarning.core.errors import Refused
from fairwarning.machines.command.driver import AT_ONCE, CommandDriver
from tests.fixtures.waiting import run_async, wait_until_async
from tests.machines.command_harness import NOTES, QUICK, WAITS, command_harness, in_both_loops
from tests.machines.process_harness import steady

# Writes far more than any pipe holds, and then what its keeper has needed of memory.
FLOOD = """
head -c 30000000 /dev/zero
head -c 30000000 /dev/zero | tr '\\0' x >&2
echo >&2
sed -n 's/VmHWM:[[:space:]]*\\([0-9]*\\) kB/\\1/p' /proc/$PPID/status >&2
exit 1
"""


@in_both_loops
async def test_what_a_program_is_told(tmp_path: Path) -> None:
    """The impact as one JSON object, the same as variables, and little else of our environment."""
    async with command_harness(tmp_path) as it:
        os.environ["PGPASSWORD"] = "secret"
        assert await it.outcome('cat > "$0/stdin"; env > "$0/env"') == ""
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
        told = dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines())
        assert {name: told[name] for name in told if name.startswith("FAIRWARNING_")} == {
            "FAIRWARNING_IMPACT": "one",
            "FAIRWARNING_KIND": "reboot",
            "FAIRWARNING_SCOPE": "web",
            "FAIRWARNING_MACHINE": "web_0",
            "FAIRWARNING_EVENT": "event",
            "FAIRWARNING_OPERATION": "restart",
            "FAIRWARNING_REPEAT": "0",
        }
        assert told["PATH"] == os.environ["PATH"]
        assert "PGPASSWORD" not in told


@pytest.mark.parametrize(
    ("script", "failed"),
    [
        ("exit 0", ""),
        ("echo all is well >&2", ""),
        ("exit 3", "exit code 3"),
        ("echo one >&2; echo two >&2; echo >&2; exit 3", "exit code 3: two"),
        ("echo told nobody; exit 1", "exit code 1"),
        ("kill -KILL $$", "ended by signal SIGKILL"),
        ("kill -40 $$", "ended by signal 40"),
        (
            r"printf 'caf\351 \033[31m\n' >&2; exit 1",
            "exit code 1: caf\N{REPLACEMENT CHARACTER}  [31m",
        ),
        ("exec 0<&- 1>&- 2>&-; exit 4", "exit code 4"),
        (FLOOD.partition("sed")[0] + "echo enough >&2; exit 5", "exit code 5: enough"),
    ],
)
def test_how_it_ends(script: str, failed: str, tmp_path: Path) -> None:
    """Exit code 0 is success; else the last line it said on stderr is part of the reason."""

    @run_async
    async def play() -> None:
        async with command_harness(tmp_path) as it:
            assert await it.outcome(script) == failed

    play()


@run_async
async def test_what_it_says_is_bounded(tmp_path: Path) -> None:
    """A program may say as much as it likes: nobody is held up, and only the end of it is kept."""
    async with command_harness(tmp_path) as it:
        failed = await it.outcome(FLOOD)
        assert int(failed.removeprefix("exit code 1: ")) < 32_000  # KiB; an interpreter has 12,000


@in_both_loops
async def test_a_program_that_takes_too_long(tmp_path: Path) -> None:
    """All of its group are asked to end, and those who do not are killed."""
    async with command_harness(tmp_path) as it:
        script = (
            f"""{NOTES} trap 'echo asked >> "$0/log"; exit 0' TERM\n"""
            f"(trap '' TERM; {NOTES} sleep 100) & wait; sleep 100"
        )
        assert await it.outcome(script, seconds=0.5) == "took too long and was ended"
        assert it.words().count("asked") == 1
        group = int(it.log()[0][3])
        await wait_until_async(lambda: _gone(group), "the group has ended")


@run_async
async def test_a_program_that_does_not_listen(tmp_path: Path) -> None:
    """It is killed after its grace; what it said counts."""
    async with command_harness(tmp_path) as it:
        script = "trap '' TERM; echo busy >&2; while :; do sleep 0.05; done"
        assert await it.outcome(script, seconds=0.3) == "took too long and was ended: busy"


@run_async
async def test_what_a_program_leaves_running(tmp_path: Path) -> None:
    """It is left alone, as it may be the machine, and not waited for, whatever it holds open."""
    async with command_harness(tmp_path) as it:
        assert await it.outcome(f"(sleep 100) & {QUICK}") == ""
        assert not _gone(int(it.log()[0][3]))


@in_both_loops
async def test_so_many_at_once(tmp_path: Path) -> None:
    """Impacts of different machines happen beside each other, but only so many of them."""
    async with command_harness(tmp_path) as it:
        it.begin(WAITS)
        names = [f"impact{n}" for n in range(AT_ONCE + 3)]
        for name in names:
            it.hit(name, machine=name)
        await it.begun(AT_ONCE)
        assert await steady(it.words)
        it.go()
        assert {await it.over(name) for name in names} == {""}


@in_both_loops
async def test_impacts_of_one_machine_keep_their_order(tmp_path: Path) -> None:
    """One after the other; those of other machines do not wait for them."""
    async with command_harness(tmp_path) as it:
        it.begin(WAITS)
        for name in ("one", "two", "three"):
            it.hit(name)
        it.hit("other", machine="web_1")
        await it.begun(2)
        assert {line[1] for line in it.log()} == {"one", "other"}
        it.go()
        await it.over("three")
        mine = [line[:2] for line in it.log() if line[1] != "other"]
        assert mine == [
            [did, name] for name in ("one", "two", "three") for did in ("begun", "ended")
        ]


@run_async
async def test_nothing_begins_after_the_service_has_given_up(tmp_path: Path) -> None:
    """An impact whose time has run out while it waited does not happen any more (IL5)."""
    now = [0.0]
    async with command_harness(tmp_path) as it:
        it.begin(WAITS, now=lambda: now[0])
        it.hit("one", deadline=100.0)
        it.hit("two", deadline=100.0)
        await it.begun()
        now[0] = 100.0
        it.go()
        assert await it.over("one") == ""
        assert await it.over("two") == "it was not begun: the service has given it up"
        assert it.words() == ["begun", "ended"]


@run_async
async def test_a_program_has_no_longer_than_the_service_waits(tmp_path: Path) -> None:
    """The impact's own deadline counts if it is the earlier one."""
    async with command_harness(tmp_path) as it:
        it.begin(WAITS)
        it.hit(deadline=0.5)
        assert await it.over() == "took too long and was ended"


@pytest.mark.parametrize(
    "make",
    [
        lambda path: CommandDriver([], state=path),
        lambda path: CommandDriver(["no-such-program"], state=path),
        lambda path: CommandDriver([str(path)], state=path),
        lambda path: CommandDriver(["true"], check=["no-such-program"], state=path),
    ],
)
def test_a_program_that_is_not_there(make: Callable[[Path], object], tmp_path: Path) -> None:
    """Whoever starts a service with one hears of it then, and not when an impact is due."""
    with pytest.raises(Refused, match="name a program that this user may run"):
        make(tmp_path)


@run_async
async def test_a_program_that_cannot_be_started(tmp_path: Path) -> None:
    """It is gone, or is none: the impact failed, and says why. Once mended, it can be tried."""
    program = tmp_path / "impact"
    program.write_text("#!/nowhere\n")
    program.chmod(0o700)
    async with command_harness(tmp_path) as it:
        driver = CommandDriver([str(program)], state=it.state)
        it.drivers.append(driver)
        it.hit()
        assert await it.over() == f"cannot be started: No such file or directory: {program}"
        program.write_text("#!/bin/sh\n")
        it.hit()
        assert await it.over(times=2) == ""


@run_async
async def test_a_memory_that_cannot_be_kept(tmp_path: Path) -> None:
    """Nothing is run then: nobody could tell afterwards."""
    (tmp_path / "state").write_text("no folder")
    async with command_harness(tmp_path) as it:
        failed = await it.outcome(QUICK)
        assert failed.startswith("was not begun: ")
        assert str(it.state) in failed
        assert it.log() == []


@in_both_loops
async def test_what_keepers_come_from_is_killed(tmp_path: Path) -> None:
    """Those at work go on; the next impact starts another."""
    async with command_harness(tmp_path) as it:
        driver = it.begin(WAITS)
        it.hit("one")
        await it.begun()
        os.kill(driver._keepers._process, signal.SIGKILL)
        it.hit("two", machine="web_1")
        await it.begun(2)
        it.go()
        assert (await it.over("one"), await it.over("two")) == ("", "")
        assert [line[2] for line in it.log() if line[0] == "begun"] == ["0", "0"]


@run_async
async def test_nobody_keeps_what_is_the_services(tmp_path: Path) -> None:
    """Whatever it has open, a socket or a lock, is free again when it has ended."""
    async with command_harness(tmp_path) as it:
        reading, writing = os.pipe()
        os.set_inheritable(writing, True)
        it.begin(WAITS)
        it.hit()
        await it.begun()
        os.close(writing)
        os.set_blocking(reading, False)
        assert os.read(reading, 1) == b""
        os.close(reading)


def _gone(group: int) -> bool:
    """Whether none of the group lives; who has ended may yet have to be taken note of."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # they come and go
            state, _, its_group, *_ = stat.read_text().rpartition(")")[2].split()
            if int(its_group) == group and state not in "ZX":
                return False
    return True
