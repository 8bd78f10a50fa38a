"""A program inside a machine cannot act as another machine."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.programs import run_program
from tests.fixtures.requirements import needs_namespaces, needs_unshare
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import wait_until_async
from tests.machines.process_harness import EXEC, ProcessHarness, with_process_harness

pytestmark = pytest.mark.spec("O3")

# Connects to the control socket in a folder, tries to attach as a machine, and prints the answer.
ATTACK = """
import os, socket, sys
folder, machine = sys.argv[1:]
os.chdir(folder)
connection = socket.socket(socket.AF_UNIX)
connection.connect("control.sock")
try:
    connection.sendall(b'{"attach": "%s"}\\n' % machine.encode())
except BrokenPipeError:
    pass  # it was refused at once
print(connection.recv(65536).decode())
"""

# As above, but the process that connected has ended when the service looks at it.
ORPHAN_ATTACK = ATTACK.replace("try:", "if os.fork():\n    os._exit(0)\ntry:")

REFUSAL = "a program inside a machine cannot act as another one"


@needs_namespaces
def test_a_program_cannot_attach_as_another_machine(tmp_path: Path) -> None:
    """It can reach the control socket, as it has the user's files, and is refused."""
    attack = tmp_path / "attack.py"
    attack.write_text(ATTACK)
    with ServiceProcess(tmp_path / "data", "--sample", "--memory") as service:
        command = (sys.executable, str(attack), str(service.data), "db_1")
        done = run_program(*service.inside("db_0", *command))
        assert done.returncode == 0, done.stderr
        assert REFUSAL in done.stdout
        assert '"attached"' not in done.stdout


@needs_namespaces
@needs_unshare
@with_process_harness
async def test_a_new_namespace_does_not_help_a_program(harness: ProcessHarness) -> None:
    """It is still outside the service's network."""
    attack = (sys.executable, "-c", ATTACK, str(harness.data), "web_1")
    program = harness.start("unshare", "--user", "--net", *attack)
    assert await harness.exit_code(program) == 0, harness.err()
    assert REFUSAL in harness.out()


@needs_namespaces
@with_process_harness
async def test_exec_inside_a_machine_is_refused(harness: ProcessHarness) -> None:
    """The message says where to run it."""
    inner = (*EXEC, "--data", str(harness.data), "web_1", "--", "true")
    program = harness.start(*inner)
    assert await harness.exit_code(program) == 4
    assert REFUSAL in harness.err()


@with_process_harness
async def test_a_process_that_has_ended_is_refused(harness: ProcessHarness, tmp_path: Path) -> None:
    """Another process may have its pid by now, so the service cannot tell where it ran."""
    answer = tmp_path / "answer"
    attack = (sys.executable, "-c", ORPHAN_ATTACK, str(harness.data), "web_1")
    with answer.open("wb") as out:
        subprocess.run(attack, stdout=out, check=True)  # noqa: ASYNC221  (service must wait)
    await wait_until_async(lambda: answer.read_text().endswith("\n\n"), "it is answered")
    assert "cannot tell where exec runs" in answer.read_text()
