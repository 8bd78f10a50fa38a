"""The keeper process of the command driver starts however the package was installed."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

import fairwarning
from fairwarning.machines.command import driver, keepers
from tests.fixtures.waiting import OUTER_LIMIT_SECONDS
from tests.machines.command_harness import QUICK, CommandHarness, with_command_harness

# Executes one impact and prints its error: the folder of the package, the folder of the test.
SERVICE = """
import asyncio, sys
from pathlib import Path
sys.path += sys.argv[1:2]
from fairwarning.core.model import Impact, ImpactKind
from fairwarning.machines.command.driver import CommandDriver

async def main():
    folder = Path(sys.argv[2])
    driver = CommandDriver(["sh", "-c", 'env > "$0/env"', str(folder)], state=folder / "state")
    result = asyncio.get_running_loop().create_future()
    impact = Impact(id="one", scope="web", machine="web_0", kind=ImpactKind.REBOOT, operation="x")
    driver.carry_out(impact, lambda _, error: result.set_result(error))
    print(repr(await result))
    await driver.close()

asyncio.run(main())
"""


_ANSWERING = """
import os, socket
with socket.socket(fileno=0) as service:
    while (received := socket.recv_fds(service, 1 << 20, 1))[0]:
        os.write(received[1][0], ANSWER)
        os.close(received[1][0])
"""


@pytest.mark.parametrize("variable", [True, False], ids=["PYTHONPATH", "sys.path"])
def test_a_package_outside_the_interpreter(variable: bool, tmp_path: Path) -> None:
    """As with `pip install --target`: the keeper finds it, and programs get no PYTHONPATH."""
    target = tmp_path / "target"
    shutil.copytree(Path(fairwarning.__file__).parent, target / "fairwarning")
    venv.EnvBuilder(symlinks=True).create(tmp_path / "bare")
    environment = {"PATH": os.environ["PATH"]}
    if variable:
        environment["PYTHONPATH"] = str(target)
    ended = subprocess.run(
        [tmp_path / "bare/bin/python", "-c", SERVICE, "" if variable else target, tmp_path],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=OUTER_LIMIT_SECONDS,
    )
    assert (ended.stdout, ended.stderr) == ("''\n", "")
    assert "PYTHONPATH" not in (tmp_path / "env").read_text()


def _replace_interpreter(path: Path, monkeypatch: pytest.MonkeyPatch, content: str) -> None:
    path.write_text(content)
    path.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(path))
    monkeypatch.setattr(driver, "_PAUSES_SECONDS", (0.0, 0.0))


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        ("echo No module named x >&2; exit 3", "cannot run (exit code 3: No module named x)"),
        ("kill -KILL $$", "cannot run (ended by signal SIGKILL)"),
    ],
)
@with_command_harness
async def test_a_keeper_that_fails_at_its_start(
    harness: CommandHarness,
    ending: str,
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The reason is reported and logged, and the program does not run."""
    _replace_interpreter(tmp_path / "python", monkeypatch, f"#!/bin/sh\n{ending}\n")
    reported = await harness.outcome(QUICK)
    assert reported.startswith(f"failed on every attempt: the keeper process {error}")
    assert harness.log() == []


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b'{"error": ', f"failed on every attempt: {keepers._KILLED}"),
        (b"not JSON\n", "the driver failed: Expecting value"),
    ],
)
@with_command_harness
async def test_an_answer_that_is_no_result(
    harness: CommandHarness,
    answer: bytes,
    error: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A keeper that is killed while it answers has not answered; the impact fails at once."""
    script = f"#!{sys.executable}\n{_ANSWERING}".replace("ANSWER", repr(answer))
    _replace_interpreter(tmp_path / "python", monkeypatch, script)
    assert (await harness.outcome(QUICK)).startswith(error)


@with_command_harness
async def test_an_interpreter_that_does_not_exist(
    harness: CommandHarness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason names it. It may be gone after an upgrade."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    error = await harness.outcome(QUICK)
    assert error.startswith("not started: cannot start a process: ")
    assert str(tmp_path / "gone") in error
