"""examples/checkpoint: a reboot loses no block, and no block is computed twice."""

import json
import re
from pathlib import Path

import pytest

from fairwarning.testing import Cloud
from tests.examples.copies import copy
from tests.fixtures.programs import start_program
from tests.fixtures.requirements import needs_namespaces
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import wait_until


def blocks(text: str) -> list[int]:
    """Return the numbers of the blocks that the program printed."""
    return [int(number) for number in re.findall(r"^block (\d+):", text, re.MULTILINE)]


@pytest.mark.spec("G4", "G6", "O4")
@needs_namespaces
def test_it_resumes_after_a_real_reboot(tmp_path: Path) -> None:
    """It saves before the approval; after the reboot no block is missing or repeated."""
    folder = copy("checkpoint", tmp_path)
    with ServiceProcess(tmp_path / "data", "--sample", "--memory") as service:
        service.poll("db_0")
        with start_program(*service.inside("db_0", "sh", "boot.sh"), folder=folder) as machine:
            machine.wait_for("block 3:")
            machine.wait_for("watching for db_0")
            assert service.run("machine", "restart", "db_0").returncode == 0
            wait_until(lambda: machine.output.count("resuming after") == 2, "the restart")
            before, _, after = machine.output.rpartition("resuming after")
            saved = int(re.findall(r"saved after (\d+) blocks", before)[0])
            assert blocks(before)[-1] == saved
            assert before.index(f"saved after {saved}") < before.index("db_0 is rebooted")
            machine.wait_for(f"block {saved + 3}:")
            done = blocks(machine.output)
            assert done == list(range(1, len(done) + 1))
            assert after.startswith(f" {saved} blocks")
            wait_until(lambda: not service.poll("db_0")["Events"], "the end of the event")


@pytest.mark.spec("G4")
def test_it_resumes_after_a_cancelled_event(tmp_path: Path) -> None:
    """A cancelled event only causes a pause."""
    folder = copy("checkpoint", tmp_path)
    (folder / "agent.toml").write_text(
        'approve = "never"\n' + (folder / "agent.toml").read_text(), "utf-8"
    )
    with Cloud() as cloud:
        machine = cloud.machine("batch_0")
        with start_program("sh", "boot.sh", folder=folder, env=machine.env) as program:
            program.wait_for("block 3:")
            event = machine.restart().event
            assert event is not None
            program.wait_for("is done after")
            done = blocks(program.output)
            assert json.loads((folder / "saved.json").read_text())["blocks"] == done[-1]
            assert (folder / "paused").exists()
            cloud.cancel(event)
            program.wait_for(f"block {done[-1] + 3}:")
            done = blocks(program.output)
            assert done == list(range(1, len(done) + 1))
            assert machine.history == []
