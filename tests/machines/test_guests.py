"""Real guests of a host: each is known by the address that its requests come from (M22).

They are networks of their own, each connected to this one by a cable.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import pytest

from tests.fixtures.endpoint import POLL_TARGET, approval
from tests.fixtures.private_network import run_inside
from tests.fixtures.requirements import IP, needs_ip, needs_root
from tests.fixtures.service import ServiceProcess

HOST = "10.0.0.1"
"""The address of this end of every cable."""

FLEET = """
[[scale_set]]
name = "web"
capacity = 2
terminate_notice = "PT5M"
subnet = "10.0.0.0/24"
"""
ADDRESS = "/metadata/instance/network/interface/0/ipv4?api-version=2021-02-01"
NOBODY = "10.0.0.77"
WORDS = ("--memory", "--clock", "virtual")

_PROGRAM = """
import ctypes, json, sys
from http.client import HTTPConnection
assert ctypes.CDLL(None).unshare(0x40000000) == 0  # a network of its own
print("ready", flush=True)
for line in sys.stdin:
    host, port, source, method, target, body = json.loads(line)
    connection = HTTPConnection(host, port, timeout=300, source_address=(source, 0))
    try:
        connection.request(method, target, body, {"Metadata": "true"})
        answer = connection.getresponse()
        reply = [answer.status, answer.read().decode()]
    except OSError as error:
        reply = [0, str(error)]
    connection.close()
    print(json.dumps(reply), flush=True)
"""


def ip(words: str) -> None:
    """Run `ip` with these arguments."""
    subprocess.run([str(IP), *words.split()], check=True)


class Guest:
    """A network with one interface, and a process in it that sends requests."""

    def __init__(self, number: int, *addresses: str) -> None:
        self.addresses = addresses
        self._cable = f"cable{number}"
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        assert self._read() == "ready\n"
        guest = self._process.pid
        ip(f"link add {self._cable} type veth peer name eth0 netns {guest}")
        ip(f"address add {HOST}/32 dev {self._cable}")
        ip(f"link set {self._cable} up")
        for address in self.addresses:
            ip(f"route add {address}/32 dev {self._cable}")
            self._inside(f"address add {address}/32 dev eth0")
        self._inside("link set eth0 up")
        self._inside(f"route add {HOST}/32 dev eth0 src {self.addresses[0]}")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def request(
        self, port: int, target: str, body: str | None = None, *, source: str = ""
    ) -> tuple[int, Any]:
        """Send a request to the host; return the status and the JSON of the answer."""
        method = "GET" if body is None else "POST"
        words = [HOST, port, source or self.addresses[0], method, target, body]
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        status, text = json.loads(self._read())
        return status, json.loads(text) if text and status else text

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def _inside(self, words: str) -> None:
        nsenter = ["nsenter", "--net", f"--target={self._process.pid}"]
        subprocess.run([*nsenter, str(IP), *words.split()], check=True)


Scenario = Callable[[ServiceProcess, int, Guest, Guest], None]


def with_two_guests(folder: Path, scenario: Scenario) -> None:
    """Run a scenario with a service on the host and two guests; the second has an address more."""

    def work() -> None:
        ip(f"address add {HOST}/32 dev lo")
        with (
            Guest(1, "10.0.0.4") as first,
            Guest(2, "10.0.0.5", NOBODY) as second,
            ServiceProcess(folder, *WORDS, fleet=FLEET, metadata=f"{HOST}:0") as service,
        ):
            port = urlsplit(service.ready["metadata"]).port
            assert port is not None
            scenario(service, port, first, second)

    run_inside(work)


@needs_root
@needs_ip
@pytest.mark.spec("M22", "T1", "T6")
def test_a_terminate_notice_over_tcp(tmp_path: Path) -> None:
    """Both instances are told, one approves, and the request of a stranger changes nothing."""

    def scenario(service: ServiceProcess, port: int, first: Guest, second: Guest) -> None:
        for guest in (first, second):
            assert guest.request(port, POLL_TARGET)[1]["Events"] == []
        service.ok("POST", "/api/machines/web_0/delete")
        (event,) = first.request(port, POLL_TARGET)[1]["Events"]
        assert (event["EventType"], event["Resources"]) == ("Terminate", ["web_0"])
        assert second.request(port, POLL_TARGET)[1]["Events"] == [event]

        status, answer = second.request(
            port, POLL_TARGET, approval(event["EventId"]), source=NOBODY
        )
        assert status == 404, answer
        assert first.request(port, POLL_TARGET)[1]["Events"] == [event]

        assert first.request(port, POLL_TARGET, approval(event["EventId"]))[0] == 200
        service.advance(60)
        assert first.request(port, POLL_TARGET)[0] == 404
        assert second.request(port, POLL_TARGET)[1]["Events"] == []

    with_two_guests(tmp_path / "data", scenario)


@needs_root
@needs_ip
@pytest.mark.spec("M19", "M22")
def test_a_machine_has_the_address_that_identifies_it(tmp_path: Path) -> None:
    """The instance metadata shows it, with the subnet; a new address replaces the old at once."""

    def scenario(service: ServiceProcess, port: int, first: Guest, second: Guest) -> None:
        shown = first.request(port, ADDRESS)[1]
        assert shown["ipAddress"][0]["privateIpAddress"] == "10.0.0.4"
        assert shown["subnet"] == [{"address": "10.0.0.0", "prefix": "24"}]
        assert second.request(port, POLL_TARGET)[0] == 200
        changed = service.run("machine", "set-address", "web_1", NOBODY)
        assert changed.stdout == f"web_1: address {NOBODY}\n"
        assert second.request(port, POLL_TARGET)[0] == 404
        assert second.request(port, POLL_TARGET, source=NOBODY)[0] == 200

    with_two_guests(tmp_path / "data", scenario)
