"""The examples of docs/first-event.md and docs/clients.md work as shown."""

import re
import shlex
import sys
from pathlib import Path

import pytest

from fairwarning.testing import Cloud
from tests.fixtures.programs import ROOT, run_program, start_program
from tests.fixtures.requirements import needs_curl, needs_namespaces
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import wait_until

DOCS = ROOT / "docs"


def block(page: str, language: str, holding: str) -> str:
    """Return the block of a page that contains this text."""
    text = (DOCS / page).read_text("utf-8")
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (match,) = [candidate for candidate in blocks if holding in candidate]
    return str(match)


def inside(service: ServiceProcess, machine: str, *command: str) -> list[str]:
    """Poll as a machine; return the command that runs a program in it."""
    service.poll(machine)
    return service.inside(machine, *command)


@pytest.mark.spec("G1", "O3", "O4")
@needs_namespaces
def test_the_first_handler(tmp_path: Path) -> None:
    """It prints what the page shows."""
    handler = tmp_path / "handler.py"
    handler.write_text(block("first-event.md", "python", "saving my work"))
    shown = block("first-event.md", "text", "fairwarning: db_0 is rebooted").splitlines()
    with (
        ServiceProcess(tmp_path / "data", "--sample", "--memory") as service,
        start_program(
            *inside(service, "db_0", "python3", str(handler)), folder=tmp_path
        ) as program,
    ):
        program.wait_for("I am db_0")
        assert service.run("machine", "restart", "db_0").stdout.startswith(
            "db_0: accepted, operation "
        )
        wait_until(lambda: program.output.count("I am db_0") == 2, "the restart")
        printed = program.output.splitlines()
    optional = "Reboot is started"  # the handler may be stopped before it reads this
    known = [line for line in printed if line in set(shown) - {optional}]
    assert known == [line for line in shown if line != optional]


@pytest.mark.spec("G4")
def test_the_better_python_client(tmp_path: Path) -> None:
    """It approves events that affect only its own machine."""
    text = block("clients.md", "python", "build_opener")
    with Cloud() as cloud:
        own, other = cloud.machines("db", 2)
        client = tmp_path / "client.py"
        client.write_text(text.replace("http://169.254.169.254", own.url))

        def run() -> str:
            return run_program(sys.executable, client, check=True).stdout

        assert run() == ""
        other.restart()
        assert run() == ""
        own.restart()
        assert run() == "preparing for Reboot\n"
        wait_until(lambda: own.history == ["reboot"], "the approval")
        assert other.history == []


@pytest.mark.spec("M1", "M12")
@needs_curl
def test_the_curl_commands() -> None:
    """The commands of the page poll and approve; without the header they get the error shown."""
    page = block("clients.md", "console", "curl -H Metadata:true -d").replace("\\\n", " ")
    read, approve = [line[2:] for line in page.splitlines() if line.startswith("$ ")]
    bare = block("clients.md", "console", "curl -d").splitlines()
    with Cloud() as cloud:
        web = cloud.machine("web")

        def curl(line: str) -> str:
            words = shlex.split(line.replace("http://169.254.169.254", web.url))
            return run_program(*words, "-sS", "--noproxy", "*", check=True).stdout

        assert curl(read) == '{"DocumentIncarnation":1,"Events":[]}'
        event = web.restart().event
        assert event is not None
        assert event.id in curl(read)
        assert curl(bare[0][2:]) == bare[1]
        known = re.search(r'"EventId":"([^"]+)"', approve)
        assert known is not None
        assert curl(approve.replace(known[1], event.id)) == ""
        wait_until(lambda: web.history == ["reboot"], "the approval")
