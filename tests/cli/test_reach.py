"""A URL for every machine, wherever the service runs (M22, O12)."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.http import fetch
from tests.fixtures.loopback import NETWORKS
from tests.fixtures.programs import run_program
from tests.fixtures.requirements import (
    needs_ip,
    needs_linux,
    needs_nsenter,
    needs_root_namespaces,
    needs_unshare,
)
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

pytestmark = [needs_linux, pytest.mark.private_network, pytest.mark.spec("M22", "O12")]

NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
EVERY = "0.0.0.0"
HOST, GUEST = "10.99.0.1", "10.99.0.2"


def started(data: Path, *words: str, host: str = "", fleet: str = "") -> ServiceProcess:
    """A service on the default ports, which are free in a private network."""
    console = f"{host}:8170" if host else ""
    arm = f"{host}:8171" if host else ""
    metadata = f"{host}:8169" if host else ""
    return ServiceProcess(
        data, *words, "--memory", fleet=fleet, metadata=metadata, console=console, arm=arm
    )


def name_at(url: str) -> str:
    """The name of the machine that a URL answers as; the error if there is none."""
    return fetch(f"{url}{NAME}", headers={"Metadata": "true"}).text


def assert_all_answer(urls: dict[str, str | None]) -> None:
    """Assert that each machine has a URL that answers as the machine."""
    assert urls
    assert {name: url and name_at(url) for name, url in urls.items()} == {
        name: name for name in urls
    }


def listed(service: ServiceProcess) -> dict[str, str | None]:
    """The URLs that `machine list` shows."""
    return {machine["name"]: machine["url"] for machine in service.json("machine", "list")}


@pytest.mark.spec("O2")
@pytest.mark.parametrize("limit_network", NETWORKS.values(), ids=NETWORKS)
def test_every_url_answers(tmp_path: Path, limit_network: Callable[[], None]) -> None:
    """Those of `up` and of `machine list`, and those of a machine that is created later."""
    limit_network()
    with started(tmp_path / "d", "--demo") as service:
        assert_all_answer(service.ready["machines"])
        service.json("machine", "create", "late")
        assert listed(service).keys() == {*service.ready["machines"], "late"}
        assert_all_answer(listed(service))
        url = service.run("machine", "url", "late").stdout.strip()
        assert (url, name_at(url)) == (listed(service)["late"], "late")
        assert url in service.run("machine", "show", "late").stdout
        assert url in service.api("GET", "/machines/late").text


@pytest.mark.parametrize("limit_network", NETWORKS.values(), ids=NETWORKS)
def test_localhost(tmp_path: Path, limit_network: Callable[[], None]) -> None:
    """It is the loopback address of the system, for every port."""
    limit_network()
    with started(tmp_path / "d", "--demo", host="localhost") as service:
        assert_all_answer(listed(service))


# --- A service for other hosts ---


def needs_neighbour(test: Callable[[Path], None]) -> Callable[[Path], None]:
    """Mark a test with what `neighbour` needs."""
    return needs_root_namespaces(needs_ip(needs_nsenter(needs_unshare(test))))


@contextmanager
def neighbour() -> Iterator[str]:
    """Another host, connected to this one: the words that run a program there."""
    with subprocess.Popen(("unshare", "--net", "sleep", "infinity")) as other:
        try:
            inside = ("nsenter", f"--net=/proc/{other.pid}/ns/net")
            own = Path("/proc/self/ns/net").readlink()
            wait_until(lambda: Path(f"/proc/{other.pid}/ns/net").readlink() != own)
            for words in (
                f"ip link add here type veth peer name there netns {other.pid}",
                f"ip addr add {HOST}/24 dev here",
                "ip link set here up",
            ):
                _run(*words.split())
            for words in (f"ip addr add {GUEST}/24 dev there", "ip link set there up"):
                _run(*inside, *words.split())
            yield " ".join(inside)
        finally:
            other.kill()


def _run(*words: str) -> str:
    done = run_program(*words)
    assert done.returncode == 0, done.stderr
    return done.stdout


READ = """
import sys, urllib.error, urllib.request
headers = dict(word.split("=", 1) for word in sys.argv[2:])
request = urllib.request.Request(sys.argv[1], headers=headers)
try:
    print(urllib.request.urlopen(request, timeout=%d).read().decode(), end="")
except urllib.error.HTTPError as error:
    print(error.read().decode(), end="")
"""


def read_there(there: str, url: str, **headers: str) -> str:
    """Send a request from the other host."""
    words = [f"{name}={value}" for name, value in headers.items()]
    return _run(*there.split(), sys.executable, "-c", READ % LIMIT_SECONDS, url, *words)


def name_there(there: str, url: str) -> str:
    """The name of the machine that a URL answers as on the other host."""
    return read_there(there, f"{url}{NAME}", Metadata="true")


def urls_there(there: str, service: ServiceProcess) -> dict[str, str | None]:
    """The URLs that the API gives to the other host."""
    token = f"Bearer {service.ready['token']}"
    answer: Any = json.loads(
        read_there(there, f"http://{HOST}:8170/api/machines", Authorization=token)
    )
    return {machine["name"]: machine["url"] for machine in answer["machines"]}


@needs_neighbour
def test_machines_that_call_from_their_address(tmp_path: Path) -> None:
    """Only a reader at the machine's address has its URL; the text says how to reach a machine."""
    fleet = f'[[machine]]\nname = "guest"\naddress = "{GUEST}"\n[[machine]]\nname = "away"\n'
    with (
        neighbour() as there,
        started(tmp_path / "d", fleet=fleet, host=EVERY) as service,
    ):
        assert service.ready["machines"] == {"guest": None, "away": None}
        assert "--default-machine" in name_at(service.ready["metadata"])
        assert urls_there(there, service) == {"guest": f"http://{HOST}:8169", "away": None}
        assert name_there(there, f"http://{HOST}:8169") == "guest"
        refused = service.run("machine", "url", "guest")
        assert refused.returncode == 1
        assert "--machine-ports" in refused.stderr
        assert "fairwarning exec" in service.run("machine", "list").stderr


@needs_neighbour
def test_ports_for_another_host(tmp_path: Path) -> None:
    """Each reader gets the URL that answers where it is."""
    words = ("--demo", "--machine-ports", "8200-")
    with neighbour() as there, started(tmp_path / "d", *words, host=EVERY) as service:
        assert_all_answer(service.ready["machines"])
        for name, url in urls_there(there, service).items():
            assert url is not None
            assert url.startswith(f"http://{HOST}:82")
            assert name_there(there, url) == name


@needs_neighbour
def test_the_default_machine_for_another_host(tmp_path: Path) -> None:
    """A published port answers as one machine, which has a URL on either host."""
    words = ("--demo", "--default-machine", "web_1")
    with neighbour() as there, started(tmp_path / "d", *words, host=EVERY) as service:
        here = {name: url for name, url in service.ready["machines"].items() if url}
        assert here == {"web_1": "http://127.0.0.1:8169"}
        assert name_at(here["web_1"]) == "web_1"
        assert urls_there(there, service)["web_1"] == f"http://{HOST}:8169"
        assert name_there(there, f"http://{HOST}:8169") == "web_1"
