"""What docs/first-event.md and docs/clients.md show is what happens, to the letter."""

import re
import shlex
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from fairwarning.pytest_plugin import Cloud
from tests.fixtures.programs import ROOT, run_program, start_program
from tests.fixtures.requirements import needs_curl, needs_namespaces
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import wait_until

DOCS = ROOT / "docs"


def block(page: str, language: str, holding: str) -> str:
    """The block of a page that holds this text."""
    text = (DOCS / page).read_text("utf-8")
    found = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (one,) = [each for each in found if holding in each]
    return str(one)


def inside(it: ServiceProcess, machine: str, *command: str) -> list[str]:
    """The command that runs a program in a machine, which has asked for its events before."""
    it.poll(machine)
    return it.inside(machine, *command)


@pytest.mark.spec("G1", "O3", "O4")
@needs_namespaces
def test_the_first_handler_is_told_and_rebooted(tmp_path: Path) -> None:
    """It says what the page says that it says."""
    handler = tmp_path / "handler.py"
    handler.write_text(block("first-event.md", "python", "saving my work"))
    shown = block("first-event.md", "text", "fairwarning: db_0 is rebooted").splitlines()
    with (
        ServiceProcess(tmp_path / "data", "--demo", "--memory") as it,
        start_program(*inside(it, "db_0", "python3", str(handler)), folder=tmp_path) as program,
    ):
        program.wait_for("I am db_0")
        assert it.run("machine", "restart", "db_0").stdout.startswith("db_0: accepted, operation ")
        wait_until(lambda: program.output.count("I am db_0") == 2, "it is started again")
        said = program.output.splitlines()
    rare = "Reboot is started"  # it may be read in the last moment, or not
    known = [line for line in said if line in set(shown) - {rare}]
    assert known == [line for line in shown if line != rare]


@pytest.mark.spec("G4", "O3")
@needs_namespaces
def test_the_first_hook_runs(tmp_path: Path) -> None:
    """The agent finds its endpoint, runs the hook, approves, and is there after the reboot."""
    (tmp_path / "agent.toml").write_text(block("first-event.md", "toml", "[[hook]]"))
    agent = ("fairwarning", "agent", "run", "--config", "agent.toml")
    with (
        ServiceProcess(tmp_path / "data", "--demo", "--memory") as it,
        start_program(*inside(it, "db_1", *agent), folder=tmp_path) as program,
    ):
        program.wait_for("watching for db_1")
        assert it.run("machine", "restart", "db_1").returncode == 0
        wait_until(lambda: program.output.count("watching for db_1") == 2, "it is started again")
        assert (tmp_path / "prepared.txt").read_text() == "Reboot of db_1\n"


@pytest.mark.spec("O9")
def test_the_first_test_passes(tmp_path: Path) -> None:
    """As it stands, beside the handler."""
    for name, holding in (("handler.py", "saving my work"), ("test_handler.py", "def test_")):
        (tmp_path / name).write_text(block("first-event.md", "python", holding))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
    if "fairwarning" not in _plugins():
        command += ["-p", "fairwarning.pytest_plugin"]
    done = run_program(*command, "test_handler.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def _plugins() -> set[str]:
    return {found.name for found in entry_points(group="pytest11")}


@pytest.mark.spec("G4")
def test_the_better_python_client(tmp_path: Path) -> None:
    """It approves what names it alone, and nobody else's."""
    text = block("clients.md", "python", "build_opener")
    with Cloud() as cloud:
        one, other = cloud.machines("db", 2)
        client = tmp_path / "client.py"
        client.write_text(text.replace("http://169.254.169.254", one.url))

        def run() -> str:
            return run_program(sys.executable, client, check=True).stdout

        assert run() == ""
        other.restart()
        assert run() == ""
        one.restart()
        assert run() == "preparing for Reboot\n"
        wait_until(lambda: one.history == ["reboot"], "it was approved")
        assert other.history == []


@pytest.mark.spec("M1", "M12")
@needs_curl
def test_the_curl_commands() -> None:
    """As the page has them: reading, approving, and what is said to one without the header."""
    page = block("clients.md", "console", "curl -H Metadata:true -d").replace("\\\n", " ")
    read, approve = [line[2:] for line in page.splitlines() if line.startswith("$ ")]
    bare = block("clients.md", "console", "curl -d").splitlines()
    with Cloud() as cloud:
        web = cloud.machine("web")

        def curl(line: str) -> str:
            words = shlex.split(line.replace("http://169.254.169.254", web.url))
            return run_program(*words, "-sS", "--noproxy", "*", check=True).stdout

        assert curl(read) == '{"DocumentIncarnation":1,"Events":[]}'
        planned = web.restart().event
        assert planned is not None
        assert planned.id in curl(read)
        assert curl(bare[0][2:]) == bare[1]
        known = re.search(r'"EventId":"([^"]+)"', approve)
        assert known is not None
        assert curl(approve.replace(known[1], planned.id)) == ""
        wait_until(lambda: web.history == ["reboot"], "it was approved")
