"""Requests in progress when the service stops, on every kind of listener."""

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.endpoint import POLL_TARGET, raw_request, read_all
from tests.fixtures.files import short_folder
from tests.fixtures.http import fetch
from tests.fixtures.requirements import needs_namespaces
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

pytestmark = pytest.mark.up("--sample", "--memory")

LONG_POLL = f"{POLL_TARGET}&wait=300"
TAG = 'If-None-Match: "1"'

# Sends a long poll from inside a machine, and prints the status.
INSIDE = """
import http.client, sys
connection = http.client.HTTPConnection("169.254.169.254")
connection.request("GET", sys.argv[1], headers={"Metadata": "true", "If-None-Match": '"1"'})
print(connection.getresponse().status)
"""


def wait_until_held(service: ServiceProcess) -> None:
    """Return once the service holds a long poll."""
    pattern = re.compile(r"^fairwarning_long_polls_held 1(\.0)?$", re.MULTILINE)
    wait_until(
        lambda: pattern.search(fetch(f"{service.ready['console']}/metrics").text),
        "the service holds the long poll",
    )


@pytest.mark.spec("M18", "M22")
def test_a_stop_answers_on_the_socket_of_a_machine(tmp_path: Path) -> None:
    """A held request on a machine's Unix socket is answered before the socket is removed."""
    words = ("--sample", "--memory", "--sockets")
    with (
        short_folder() as folder,
        ServiceProcess(tmp_path / "data", *words, str(folder)) as service,
    ):
        service.poll("db_0")
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(LIMIT_SECONDS)
            client.connect(str(folder / "db_0.sock"))
            client.sendall(raw_request(LONG_POLL, TAG))
            wait_until_held(service)
            assert service.stop() == (0, "")
            assert read_all(client).startswith(b"HTTP/1.1 304 ")
        assert list(folder.iterdir()) == []


@pytest.mark.spec("M18", "O3")
@needs_namespaces
def test_a_stop_answers_inside_a_machine(service: ServiceProcess) -> None:
    """A held request of a program under `exec` is answered before the program is disconnected."""
    service.poll("db_0")
    command = service.inside("db_0", sys.executable, "-c", INSIDE, LONG_POLL)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        wait_until_held(service)
        assert service.stop() == (0, "")
        assert program.communicate(timeout=LIMIT_SECONDS)[0] == "304\n"
