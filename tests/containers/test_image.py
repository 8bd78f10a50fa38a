"""The image of docs/run-containers.md, built by its command: what it has, and how it runs alone."""

import json
import re
from importlib.metadata import version

from tests.containers.base_images import POSTGRES, PYTHON
from tests.containers.podman import Podman

DATA = "/var/lib/fairwarning"
SHELL = ("podman", "run", "--rm", "--read-only", "--entrypoint", "sh")


def test_the_base_images_are_like_the_official_ones(podman: Podman) -> None:
    """The same Python and the same PostgreSQL as the tags name that they stand in for."""
    python = podman.run("podman", "run", "--rm", PYTHON.name, "python", "--version")
    (wanted,) = re.findall(r":([\d.]+)-", PYTHON.stands_for)
    assert python.startswith(f"Python {wanted}.")
    words = ("--entrypoint", "pg_config", POSTGRES.name, "--version")
    postgres = podman.run("podman", "run", "--rm", *words)
    (wanted,) = re.findall(r":([\d.]+)-", POSTGRES.stands_for)
    assert postgres.startswith(f"PostgreSQL {wanted}.")


def test_it_has_what_the_page_says(podman: Podman, image: str) -> None:
    """A user that is not root, the ports, a health check, and SIGTERM as its end."""
    (description,) = json.loads(podman.run("podman", "image", "inspect", image))
    config = description["Config"]
    assert config["User"] == "10001:10001"
    assert set(config["ExposedPorts"]) == {"8169/tcp", "8170/tcp", "8171/tcp"}
    check = " ".join(description["Healthcheck"]["Test"])
    assert check == f"CMD fairwarning healthcheck --data {DATA}"
    assert config["StopSignal"] == "SIGTERM"


def test_nothing_of_the_build_is_in_it(podman: Podman, image: str) -> None:
    """No pip beside the service, no source, no settings of the system that built it."""
    script = "ls /build; ls /opt/fairwarning/bin/pip; cat /etc/pip.conf; echo end"
    assert podman.run(*SHELL, image, "-c", script) == "end\n"


def test_other_commands_are_heard(podman: Podman, image: str) -> None:
    """Only `up` has its stdout dropped, so a log shows what any other command says."""
    podman.run("podman", "run", "--name", "version", image, "--version")
    assert version("fairwarning") in podman.logs("version")


def test_it_runs_without_any_words(podman: Podman, image: str) -> None:
    """Read-only and as nobody it turns healthy; SIGTERM ends it with 0; no secret is in its log."""
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
