"""The image of docs/run-containers.md, built by its command: its content, and how it runs."""

import json
import re
import shlex
from importlib.metadata import version

from tests.fixtures.waiting import wait_until
from tests.release.containers.base_images import POSTGRES, PYTHON
from tests.release.containers.machine import Machine
from tests.release.containers.page import shell_commands
from tests.release.containers.podman import Podman

DATA = "/var/lib/fairwarning"
SHELL = ("podman", "run", "--rm", "--read-only", "--entrypoint", "sh")


def test_the_base_images_are_like_the_official_ones(podman: Podman) -> None:
    """They have the Python and the PostgreSQL of the tags that they replace."""
    python = podman.run("podman", "run", "--rm", PYTHON.name, "python", "--version")
    (expected,) = re.findall(r":([\d.]+)-", PYTHON.stands_for)
    assert python.startswith(f"Python {expected}.")
    words = ("--entrypoint", "pg_config", POSTGRES.name, "--version")
    postgres = podman.run("podman", "run", "--rm", *words)
    (expected,) = re.findall(r":([\d.]+)-", POSTGRES.stands_for)
    assert postgres.startswith(f"PostgreSQL {expected}.")


def test_its_configuration_is_as_documented(podman: Podman, image: str) -> None:
    """An unprivileged user, the ports, a health check, and SIGTERM as stop signal."""
    (description,) = json.loads(podman.run("podman", "image", "inspect", image))
    config = description["Config"]
    assert config["User"] == "10001:10001"
    assert set(config["ExposedPorts"]) == {"8169/tcp", "8170/tcp", "8171/tcp"}
    check = " ".join(description["Healthcheck"]["Test"])
    assert check == f"CMD fairwarning healthcheck --data {DATA}"
    assert config["StopSignal"] == "SIGTERM"


def test_the_build_leaves_nothing_behind(podman: Podman, image: str) -> None:
    """No pip, no source, and no settings of the system that built it."""
    script = "ls /build; ls /opt/fairwarning/bin/pip; cat /etc/pip.conf; echo end"
    assert podman.run(*SHELL, image, "-c", script) == "end\n"


def test_other_commands_are_logged(podman: Podman, image: str) -> None:
    """Only the stdout of `up` is discarded, so the log shows the output of other commands."""
    podman.run("podman", "run", "--name", "version", image, "--version")
    assert version("fairwarning") in podman.logs("version")


def test_it_runs_without_arguments(podman: Podman, image: str) -> None:
    """Read-only and unprivileged it becomes healthy; SIGTERM ends it with 0; it logs no secret."""
    volume = ("--volume", f"data:{DATA}")
    podman.run(
        *("podman", "run", "--detach", "--name", "service", "--read-only", "--cap-drop", "all"),
        *(*volume, image),
    )
    podman.wait_until_healthy("service")
    assert podman.run("podman", "exec", "service", "id", "--user") == "10001\n"
    writing = podman.attempt("podman", "exec", "--user", "0", "service", "touch", "/opt/file")
    assert "Read-only file system" in writing.stderr
    status = podman.run("podman", "exec", "service", "cat", "/proc/1/status")
    assert re.findall(r"^Cap(?:Prm|Eff|Bnd):\s*(\w+)$", status, re.MULTILINE) == ["0" * 16] * 3

    ready = json.loads(podman.run("podman", "exec", "service", "cat", f"{DATA}/up.json"))
    podman.run("podman", "stop", "--time", "10", "service")  # after ten seconds: SIGKILL, 137
    assert podman.inspect("service")["State"]["ExitCode"] == 0
    log = podman.logs("service")
    assert ready["token"] not in log
    assert ready["page"].partition("key=")[2] not in log


ADDRESS = "10.88.0.11"  # on the network that Podman uses by default
FLEET = f"""
[[machine]]
name = "web"
address = "{ADDRESS}"
"""
_GET = "import sys, urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1]).read().decode())"


def test_a_container_is_a_machine(podman: Podman) -> None:
    """It polls, sees a freeze, approves it, and the event ends."""
    folder = podman.folder / "one"
    folder.mkdir()
    (folder / "fleet.toml").write_text(FLEET)
    start, list_machines = shell_commands("run")
    podman.run("sh", "-c", start, folder=folder)
    podman.wait_until_healthy("fairwarning")
    assert "web" in podman.run("sh", "-c", list_machines)

    podman.run("podman", "run", "--detach", "--name", "web", "--ip", ADDRESS, PYTHON.name)
    networks = podman.inspect("fairwarning")["NetworkSettings"]["Networks"]
    endpoint = f"http://{networks['podman']['IPAddress']}:8169"
    web = Machine(podman, "web")
    assert web.events(endpoint) == []
    podman.run(*shlex.split(list_machines.replace("list", "freeze")), "--duration", "1", "web")
    wait_until(
        lambda: web.events(endpoint) == [("Freeze", "Scheduled")], "the machine sees the event"
    )
    web.approve(endpoint)
    wait_until(lambda: web.events(endpoint) == [], "the event is over")
    assert podman.run("python3", "-c", _GET, "http://localhost:8170/healthz") == '{"status":"ok"}'
