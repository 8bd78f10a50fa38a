"""Connections that are reset before the endpoint accepts them."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from fairwarning.core.limits import CONNECTIONS_OF_MACHINE
from fairwarning.metadata.callers import CallerResolver, by_local_address, by_source_address
from tests.fixtures.endpoint import POLL_TARGET, EndpointHarness
from tests.fixtures.fleet import standalone
from tests.fixtures.http import fetch
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS, on_this_machine
from tests.hostile.conftest import MakeEndpoint
from tests.hostile.preparation import Watch
from tests.hostile.wire import POLL, RESET, Client

pytestmark = pytest.mark.spec("M17", "M22")

ATTACKER, HONEST = "127.9.9.9", "127.9.9.10"
MANY = 3 * CONNECTIONS_OF_MACHINE

RESOLVERS: list[CallerResolver] = [by_source_address, by_local_address]


def listen(endpoint: EndpointHarness, resolver: CallerResolver) -> int:
    """Create a machine for each of the two addresses, and listen; return the port."""
    for number, address in enumerate((ATTACKER, HONEST)):
        endpoint.create(standalone(f"vm{number}", address))
    return endpoint.listen(resolver)


def connect(address: str, port: int) -> socket.socket:
    """Connect from this address to this address, so that either identifies the machine."""
    return socket.create_connection((address, port), LIMIT_SECONDS, (address, 0))


def reset(address: str, port: int) -> None:
    """Connect, send a little, and reset the connection."""
    with connect(address, port) as client:
        client.sendall(b"GET ")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


@pytest.mark.parametrize("resolver", RESOLVERS)
def test_a_reset_before_the_connection_is_accepted(
    make_endpoint: MakeEndpoint, resolver: CallerResolver
) -> None:
    """Resets are neither counted nor logged; the machine may have as many connections as before."""
    with make_endpoint() as endpoint, Watch(endpoint) as watch, ExitStack() as stack:
        port = listen(endpoint, resolver)
        with endpoint.stalled():
            for _ in range(MANY):
                reset(ATTACKER, port)
        clients = [
            stack.enter_context(Client(connect(ATTACKER, port)))
            for _ in range(CONNECTIONS_OF_MACHINE)
        ]
        assert {client.request(POLL).status for client in clients} <= {200, 404}
        assert len(endpoint.connections) == endpoint.server.accepted == CONNECTIONS_OF_MACHINE
        assert endpoint.server.counts.refused.keys() <= {"unknown-caller"}
        with Client(connect(ATTACKER, port)) as extra:
            assert extra.request(POLL).status == 429
        assert watch.seen == []


# --- A flood of resets, beside an honest machine --------------------------------------------------

FLEET = f"""
[metadata]
requests_per_second = 0
[[machine]]
name = "attacker"
address = "{ATTACKER}"
[[machine]]
name = "honest"
address = "{HONEST}"
"""

FLOOD_SECONDS = 3.0
WAIT_SECONDS = 0.25  # the longest that the honest machine may wait
POLLS_A_SECOND = 20

# Resets 5,000 connections a second, or as many as it can, until it is killed. The kernel hands a
# connection over when data has arrived, so every second one sends some.
FLOOD = """
import socket, sys, time
address, port, linger = sys.argv[1], int(sys.argv[2]), bytes.fromhex(sys.argv[3])
began, done = time.monotonic(), 0
while True:
    with socket.socket() as client:
        client.bind((address, 0))
        client.connect((address, port))
        if done % 2:
            client.send(b"GET ")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    done += 1
    if done == 500:
        print(flush=True)
    ahead = began + done / 5000 - time.monotonic()
    if ahead > 0:
        time.sleep(ahead)
"""


@contextmanager
def flood(port: int) -> Iterator[None]:
    """Reset connections of the attacker's machine from another process."""
    command = [sys.executable, "-c", FLOOD, ATTACKER, str(port), RESET.hex()]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"\n"
            yield
            assert process.poll() is None
        finally:
            process.kill()


def poll_for(seconds: float, port: int) -> list[float]:
    """Poll as the honest machine, each time on a new connection; return how long each took."""
    waits = []
    end = time.monotonic() + seconds
    while (began := time.monotonic()) < end:
        url = f"http://{HONEST}:{port}{POLL_TARGET}"
        response = fetch(url, headers={"Metadata": "true"}, source=HONEST)
        waits.append(time.monotonic() - began)
        assert response.status == 200, response.body
        time.sleep(max(0.0, 1 / POLLS_A_SECOND - waits[-1]))
    return waits


def test_an_honest_machine_beside_a_flood_of_resets(tmp_path: Path) -> None:
    """It is never refused and never waits for longer than 250 ms; nothing is logged."""
    with ServiceProcess(
        tmp_path / "data", "--memory", fleet=FLEET, metadata="0.0.0.0:0"
    ) as service:
        port = int(service.ready["metadata"].rpartition(":")[2])
        calm = poll_for(1.0, port)
        with flood(port):
            waits = poll_for(FLOOD_SECONDS, port)
        # A busy machine stalls any process now and then, so allow for what polls take without the
        # flood, and for one poll in ten. A queue of resets would delay all of them.
        assert sorted(waits)[len(waits) * 9 // 10] < on_this_machine(WAIT_SECONDS) + max(calm)
        assert service.stop() == (0, "")
