"""The endpoint when the process has no free descriptor, and what leaves it some."""

import os
import select
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import pytest

from tests.campaigns import split
from tests.fixtures.http import fetch
from tests.fixtures.service import PROGRAM, ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until
from tests.hostile.preparation import allow_files
from tests.hostile.wire import POLL, Client

DESCRIPTORS = 100  # allowed to the service
CLIENTS = 150
SHORT = b"cannot accept connections: Too many open files"
PAUSE_SECONDS = 2.0  # without a descriptor: longer than until the endpoint tries again
FLEET = """
[metadata]
connections_of_machine = 200
[[machine]]
name = "vm"
"""


def constrained(descriptors: int) -> type[ServiceProcess]:
    """A service that may have so many descriptors."""

    class ConstrainedService(ServiceProcess):
        program: ClassVar = ("sh", "-c", f'ulimit -n {descriptors} && exec "$@"', "sh", *PROGRAM)

    return ConstrainedService


@pytest.fixture(params=split(["uvloop", "asyncio"], 1))
def environment(request: pytest.FixtureRequest, tmp_path: Path) -> Mapping[str, str]:
    """The environment of a service on each event loop."""
    if request.param == "asyncio":
        (tmp_path / "uvloop.py").write_text("raise ModuleNotFoundError('uvloop')")
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


@contextmanager
def too_many_clients(service: ServiceProcess) -> Iterator[list[Client]]:
    """Connect more clients than the service has descriptors; each sends a poll."""
    host, _, port = service.machine_url("vm").removeprefix("http://").partition(":")
    with ExitStack() as stack:
        clients = []
        for _ in range(CLIENTS):
            sock = socket.create_connection((host, int(port)), LIMIT_SECONDS)
            clients.append(stack.enter_context(Client(sock)))
            clients[-1].send(POLL)
        yield clients


def read_until(service: ServiceProcess, text: bytes) -> str:
    """Read the log up to this text."""
    assert service.process.stderr is not None
    log, descriptor = b"", service.process.stderr.fileno()
    while text not in log:
        assert select.select([descriptor], [], [], LIMIT_SECONDS)[0], log
        log += os.read(descriptor, 65536)
    return log.decode()


def cpu_seconds(service: ServiceProcess) -> float:
    """The CPU time that the service has used."""
    fields = Path(f"/proc/{service.process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.spec("M17")
def test_clients_wait_for_a_free_descriptor(tmp_path: Path, environment: Mapping[str, str]) -> None:
    """Nobody is dropped: clients are served as others leave; it is logged once.

    The endpoint tries again now and then, and not without a pause.
    """
    start = constrained(DESCRIPTORS)
    with start(tmp_path / "data", "--memory", fleet=FLEET, env=environment) as service:
        with too_many_clients(service) as clients:
            log = read_until(service, SHORT)
            before = cpu_seconds(service)
            time.sleep(PAUSE_SECONDS)
            assert cpu_seconds(service) - before < PAUSE_SECONDS / 4
            for client in clients:
                assert client.reply().status == 200
                client.sock.close()
        code, rest = service.stop()
        assert code == 0
        assert (log + rest).count("cannot accept") == 1
        assert "Traceback" not in log + rest


USUAL_DESCRIPTORS, HALF_REQUESTS = 1024, 1100
HALVES = {"console": b"GET / HTTP/1.1\r\nHost: ", "arm": b"\x16\x03\x01\x02\x00\x01"}
"""The beginning of a request, and that of a TLS handshake."""


@pytest.mark.parametrize("port", HALVES)
@pytest.mark.spec("M17")
def test_half_requests_leave_descriptors_for_polls(tmp_path: Path, port: str) -> None:
    """Polls go on, the console serves other addresses, and this one again when they have ended."""
    allow_files(HALF_REQUESTS + 200)
    start = constrained(USUAL_DESCRIPTORS)
    with start(tmp_path / "data", "--memory", fleet=FLEET) as service:
        address = ("127.0.0.1", urlsplit(str(service.ready[port])).port or 0)
        with ExitStack() as sockets:
            for _ in range(HALF_REQUESTS):
                sock = sockets.enter_context(socket.create_connection(address, LIMIT_SECONDS))
                with suppress(ConnectionError):
                    sock.sendall(HALVES[port])
            for _ in range(50):
                assert service.get("vm").status == 200
            other = fetch(f"{service.ready['console']}/healthz", source="127.0.0.2")
            assert other.status == 200
        wait_until(lambda: service.api("GET", "/api/clock").status == 200, "the console")
        code, errors = service.stop()
        assert (code, "Traceback" in errors) == (0, False)
