"""One process, started by the command of docs/run-containers.md."""

import shlex

from tests.fixtures.waiting import wait_until
from tests.release.containers.base_images import PYTHON
from tests.release.containers.machine import Machine
from tests.release.containers.page import shell_commands
from tests.release.containers.podman import Podman

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
