"""Attacks on the console and the ARM port of the real program, beside machines that poll."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import ClassVar
from urllib.parse import urlsplit

import pytest

from tests.fixtures.http import fetch
from tests.fixtures.programs import ROOT
from tests.fixtures.service import PROGRAM, ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS, on_this_machine, wait_until
from tests.hostile.preparation import allow_files
from tests.hostile.wire import POLL, Client

FLEET = '[[machine]]\nname = "vm"\n'
POLLS = 1000
P99_SECONDS = 0.05
SLOWER = 20  # times the same polls without an attack: a busy machine delays both
DESCRIPTORS, HALF_REQUESTS = 1024, 1100
HALVES = {"console": b"GET / HTTP/1.1\r\nHost: ", "arm": b"\x16\x03\x01\x02\x00\x01"}
"""The beginning of a request, and that of a TLS handshake."""


def port_of(service: ServiceProcess, name: str) -> int:
    """The port of the console or of ARM."""
    return urlsplit(str(service.ready[name])).port or 0


def load_both(service: ServiceProcess) -> None:
    """Send a first request to both ports: only then are their servers loaded."""
    assert service.api("GET", "/api/clock").status == 200
    with socket.create_connection(("127.0.0.1", port_of(service, "arm")), LIMIT_SECONDS) as sock:
        sock.sendall(b"not TLS")
        sock.recv(1)


def poll_p99(service: ServiceProcess) -> float:
    """Poll many times on one connection; return the time that all but 1 % took at most."""
    host, _, port = service.machine_url("vm").removeprefix("http://").partition(":")
    took = []
    with Client(socket.create_connection((host, int(port)), LIMIT_SECONDS)) as client:
        for _ in range(POLLS):
            began = time.perf_counter()
            assert client.request(POLL).status == 200
            took.append(time.perf_counter() - began)
            time.sleep(0.001)
    return sorted(took)[len(took) * 99 // 100]


@contextmanager
def attack(service: ServiceProcess) -> Iterator[None]:
    """Attack both ports meanwhile, from another process."""
    ports = [str(port_of(service, name)) for name in ("console", "arm")]
    program = [sys.executable, "-m", "tests.hostile.port_attack", *ports]
    with subprocess.Popen(program, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        hang = threading.Timer(LIMIT_SECONDS, process.kill)
        hang.start()
        assert process.stdout is not None
        assert process.stdout.readline() == "under way\n"
        hang.cancel()
        yield
        assert process.poll() is None
        process.kill()


@pytest.mark.spec("M17")
def test_attacks_on_other_ports_do_not_delay_polls(tmp_path: Path) -> None:
    """Slow, endless and huge requests on both ports: p99 of polls stays below 50 ms."""
    with ServiceProcess(tmp_path / "data", "--memory", fleet=FLEET) as service:
        load_both(service)
        alone = poll_p99(service)
        with attack(service):
            attacked = poll_p99(service)
        allowed = max(on_this_machine(P99_SECONDS), SLOWER * alone)
        assert attacked < allowed, f"p99 is {attacked:.4f} s, and {alone:.4f} s without the attack"


class ConstrainedService(ServiceProcess):
    """A service with the usual number of descriptors, and no way to get more."""

    program: ClassVar = ("sh", "-c", f'ulimit -n {DESCRIPTORS} && exec "$@"', "sh", *PROGRAM)


@pytest.mark.parametrize("port", HALVES)
@pytest.mark.spec("M17")
def test_half_requests_leave_descriptors_for_polls(tmp_path: Path, port: str) -> None:
    """Polls go on, the console serves other addresses, and this one again when they have ended."""
    allow_files(HALF_REQUESTS + 200)
    with ConstrainedService(tmp_path / "data", "--memory", fleet=FLEET) as service:
        load_both(service)
        address = ("127.0.0.1", port_of(service, port))
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
