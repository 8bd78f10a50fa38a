"""HAProxy and nginx: a rolling reboot of their machines loses no request."""

import shutil
from pathlib import Path

import pytest

from fairwarning.testing import Cloud
from tests.examples.copies import copy, fill_in
from tests.fixtures.http import fetch, free_port, is_listening, local_url
from tests.fixtures.programs import start_program
from tests.fixtures.requirements import needs_children_in_proc
from tests.fixtures.waiting import wait_until
from tests.recipes.rolling import Backend, Client, agents, reboot_in_turn

NGINX = ("nginx", "-p", ".", "-c", "nginx.conf", "-e", "stderr", "-g", "daemon off;")
HAPROXY = ("haproxy", "-db", "-f", "haproxy.cfg")


@pytest.mark.campaign
@needs_children_in_proc
@pytest.mark.parametrize(
    ("recipe", "command"), [("haproxy", HAPROXY), ("drain", NGINX)], ids=["HAProxy", "nginx"]
)
def test_no_request_is_lost(recipe: str, command: tuple[str, ...], tmp_path: Path) -> None:
    """G4: clients that never retry see no error, whichever machine is down."""
    if not shutil.which(command[0]):
        pytest.skip(f"needs {command[0]}: apt-get install {command[0]}")
    folder, port, admin = copy(recipe, tmp_path), free_port(), free_port()
    backends = [Backend("web_0"), Backend("web_1")]
    for name, values in {
        "haproxy.cfg": {"8080": port, "9999": admin, "8001": backends[0].port},
        "agent.toml": {"9999": admin},
        "nginx.conf": {"8080": port},
        "backends.conf": {"8001": backends[0].port},
    }.items():
        if (folder / name).exists() and any(old in (folder / name).read_text() for old in values):
            fill_in(folder / name, **values)
    for name in ("haproxy.cfg", "backends.conf"):
        if (folder / name).exists():
            fill_in(folder / name, **{"8002": backends[1].port})
    own = [folder, Path(shutil.copytree(folder, tmp_path / "second"))]
    if recipe == "drain":  # both hooks work on the files of the one nginx
        fill_in(own[1] / "agent.toml", **{'"."': f'"{folder}"'})

    def reboot(number: int) -> None:
        backends[number].stop()
        client.wait_for(10, backends[1 - number].name)
        backends[number].start()

    with Cloud() as cloud, start_program(*command, folder=folder):
        for backend in backends:
            backend.start()
        try:
            machines = cloud.machines("web", 2)
            wait_until(lambda: is_listening(port), "the proxy listens")
            client = Client(lambda _: fetch(local_url(port, "/")).text)
            with agents(machines, own) as programs:
                client.start()
                try:
                    client.wait_for(20, "web_0", "web_1")
                    reboot_in_turn(cloud, machines, programs, reboot)
                    client.wait_for(20, "web_0", "web_1")
                finally:
                    client.stop()
        finally:
            for backend in backends:
                backend.stop()
    client.report(command[0])
    assert client.lost == []
    assert set(client.answers) == {"web_0", "web_1"}
