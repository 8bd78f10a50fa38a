"""The endpoint when the process has no free descriptor."""

import os
import select
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import ClassVar

import pytest

from tests.campaigns import split
from tests.fixtures.service import PROGRAM, ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS
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


class ConstrainedService(ServiceProcess):
    """A service with few descriptors."""

    program: ClassVar = ("sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh", *PROGRAM)


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
    with ConstrainedService(tmp_path / "data", "--memory", fleet=FLEET, env=environment) as service:
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
