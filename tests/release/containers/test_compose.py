"""deploy/container/compose.yaml, run by the commands of docs/run-containers.md."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import blocks
from tests.fixtures.waiting import wait_until
from tests.release.containers.base_images import PYTHON
from tests.release.containers.machine import Machine
from tests.release.containers.page import PAGE, shell_commands
from tests.release.containers.podman import Podman
from tests.release.deploy.files import COMPOSE

ONE, TWO, DATABASE = (f"fairwarning_{name}_1" for name in ("one", "two", "database"))
THROUGH_ONE, THROUGH_TWO = "http://one:8169", "http://two:8169"
DATA = "/var/lib/fairwarning"
FREEZE = ("fairwarning", "machine", "freeze", "--data", DATA, "--duration", "1")
NOTICE = [("Freeze", "Scheduled")]
_UP = 3  # number of the page's commands that start everything


@pytest.fixture
def folder(podman: Podman) -> Iterator[Path]:
    """Start the database and two processes from a copy of deploy/container, and a machine."""
    clone = podman.folder / "clone"
    copy = clone / "deploy" / "container"
    shutil.copytree(COMPOSE.parent, copy)
    try:
        with podman.health_checks():
            podman.run("sh", "-ec", "\n".join(shell_commands("compose")[:_UP]), folder=clone)
            for name in (DATABASE, ONE, TWO):
                podman.wait_until_healthy(name)
            (shown,) = [block.text for block in blocks(PAGE) if block.language == "yaml"]
            (copy / "mine.yaml").write_text(shown.replace("your-handler", PYTHON.name))
            files = ("--file", "compose.yaml", "--file", "mine.yaml")
            podman.run("docker", "compose", *files, "up", "--detach", "web", folder=copy)
            yield copy
    finally:
        shutil.rmtree(clone)


def test_one_process_is_killed_and_the_other_continues(podman: Podman, folder: Path) -> None:
    """A change through one is visible through the other, which finishes it after a SIGKILL."""
    list_machines, kill_one = shell_commands("compose")[_UP:]
    listed = podman.run("sh", "-c", list_machines, folder=folder)
    assert "web" in listed
    assert "batch" in listed
    web = Machine(podman, "fairwarning_web_1")
    assert web.poll(THROUGH_ONE) == web.poll(THROUGH_TWO)
    podman.run("podman", "exec", ONE, *FREEZE, "web")
    wait_until(lambda: web.events(THROUGH_TWO) == NOTICE, "the other process shows the event")
    assert web.poll(THROUGH_ONE) == web.poll(THROUGH_TWO)

    podman.run("sh", "-c", kill_one, folder=folder)
    assert podman.inspect(ONE)["State"]["ExitCode"] == 137
    assert web.events(THROUGH_TWO) == NOTICE
    web.approve(THROUGH_TWO)
    wait_until(lambda: web.events(THROUGH_TWO) == [], "the event is over")


def test_a_process_that_crashes_is_restarted(podman: Podman, folder: Path) -> None:
    """Meanwhile the other one answers; afterwards both answer the same."""
    web = Machine(podman, "fairwarning_web_1")
    assert web.events(THROUGH_TWO) == []  # a machine that never polls gets no notice
    pid = podman.inspect(ONE)["State"]["Pid"]
    podman.run("sh", "-c", f"kill -KILL {pid}")
    podman.run("podman", "exec", TWO, *FREEZE, "web")
    wait_until(lambda: web.events(THROUGH_TWO) == NOTICE, "the event is visible")

    wait_until(lambda: podman.inspect(ONE)["State"]["Pid"] not in {0, pid}, "it is restarted")
    podman.wait_until_healthy(ONE)
    wait_until(lambda: web.poll(THROUGH_ONE) == web.poll(THROUGH_TWO), "both answer the same")


def test_processes_are_confined(podman: Podman, folder: Path) -> None:
    """They are not root, can only write to a folder in memory, and log no secret."""
    (password,) = (folder / ".env").read_text().splitlines()
    secrets = [password.partition("=")[2]]
    for name in (ONE, TWO):
        assert podman.run("podman", "exec", name, "id", "--user") == "10001\n"
        writing = podman.attempt("podman", "exec", "--user", "0", name, "touch", "/opt/file")
        assert "Read-only file system" in writing.stderr
        owner = podman.run("podman", "exec", name, "stat", "--format=%a %u", DATA)
        kind = podman.run("podman", "exec", name, "stat", "--file-system", "--format=%T", DATA)
        assert (owner, kind) == ("700 10001\n", "tmpfs\n")
        ready = podman.run("podman", "exec", name, "cat", f"{DATA}/up.json")
        secrets.append(json.loads(ready)["token"])
    logs = "".join(podman.logs(name) for name in (ONE, TWO, DATABASE))
    assert [secret for secret in secrets if secret in logs] == []
