"""The network of a machine: its programs share it, and ports of the host can be forwarded."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.fixtures.http import free_port
from tests.fixtures.requirements import (
    needs_mounts,
    needs_namespaces,
    needs_root_namespaces,
    needs_setpriv,
)
from tests.fixtures.waiting import wait_until_async
from tests.machines.process_harness import (
    ProcessHarness,
    process_harness,
    with_process_harness,
)
from tests.machines.test_exec import ASK

pytestmark = [needs_namespaces, pytest.mark.spec("O3")]

# Serves a word on a port until it gets SIGTERM.
SERVER = """
import socket
with socket.create_server(("127.0.0.1", 8080)) as server:
    print("ready", flush=True)
    while True:
        connection, _ = server.accept()
        connection.sendall(b"hello")
        connection.close()
"""

CLIENT = """
import socket
with socket.create_connection(("127.0.0.1", 8080)) as connection:
    print(connection.recv(100).decode())
"""

NETWORK = """
import os, time
print(os.readlink("/proc/self/ns/net"), flush=True)
time.sleep(1000)
"""


# Root without the capability that is needed to create namespaces without a user namespace.
AS_IN_A_CONTAINER = ("setpriv", "--bounding-set=-sys_admin", "--inh-caps=-all")


async def start_network(harness: ProcessHarness, before: tuple[str, ...] = ()) -> str:
    """Start a program that prints its network namespace and stays; return what it printed."""
    number = len(harness.programs)
    harness.start(sys.executable, "-c", NETWORK, before=before)
    await wait_until_async(lambda: "\n" in harness.out(number), "it runs")
    return harness.out(number)


@with_process_harness
async def test_programs_of_one_machine_reach_each_other(harness: ProcessHarness) -> None:
    """A program of another machine does not reach them."""
    harness.start(sys.executable, "-c", SERVER)
    await harness.printed("ready\n")
    assert await harness.output(sys.executable, "-c", CLIENT) == "hello\n"
    stranger = harness.start(sys.executable, "-c", CLIENT, machine="web_1")
    assert await harness.exit_code(stranger) == 1
    assert "ConnectionRefusedError" in harness.err(2)


@with_process_harness
async def test_programs_that_start_at_once_share_a_network(harness: ProcessHarness) -> None:
    """One of them creates it; the others wait for that."""
    for _ in range(4):
        harness.start(sys.executable, "-c", NETWORK)
    await wait_until_async(
        lambda: all("\n" in harness.out(n) for n in range(4)),
        lambda: f"all run; errors: {[harness.err(n) for n in range(4)]}",
    )
    assert len({harness.out(n) for n in range(4)}) == 1


@with_process_harness
async def test_the_network_outlives_the_program_that_created_it(
    harness: ProcessHarness,
) -> None:
    """The endpoint still answers, and another program can join."""
    network = await start_network(harness)
    assert await start_network(harness) == network
    harness.programs[0].send_signal(signal.SIGTERM)
    await harness.exit_code(harness.programs[0])
    await wait_until_async(lambda: harness.listeners.open == ["web_0"], "it is gone")
    assert await start_network(harness) == network
    assert await harness.output(sys.executable, "-c", ASK) == "web/web_0\n"


@with_process_harness
async def test_a_program_joins_after_a_restart_of_the_service(
    harness: ProcessHarness,
) -> None:
    """It waits until the programs that ran before have reconnected."""
    network = await start_network(harness)
    await harness.driver.close()
    await harness.start_service()
    assert await start_network(harness) == network


@with_process_harness
async def test_a_program_that_fails_to_start_does_not_hold_up_others(
    harness: ProcessHarness,
) -> None:
    """The next one creates the network."""
    missing = harness.start("no-such-program")
    network = await start_network(harness)
    assert await harness.exit_code(missing) == 127
    assert await start_network(harness) == network


@needs_root_namespaces
@needs_setpriv
@with_process_harness
async def test_root_in_a_container(harness: ProcessHarness) -> None:
    """Programs share a network in a user namespace, too."""
    network = await start_network(harness, before=AS_IN_A_CONTAINER)
    assert await start_network(harness, before=AS_IN_A_CONTAINER) == network


@needs_root_namespaces
@needs_setpriv
@with_process_harness
async def test_a_network_of_another_user(harness: ProcessHarness) -> None:
    """The message says which user to run exec as."""
    await start_network(harness)
    joining = harness.start("true", before=AS_IN_A_CONTAINER)
    assert await harness.exit_code(joining) == 4
    assert "programs of another user run in this machine" in harness.err(1)


# --- Ports of the host in the network: --forward ---


# Sends more than any buffer holds to an address, then prints how much came back.
ECHO_CLIENT = """
import socket, sys, threading
data = b"x" * 5_000_000
with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as connection:
    def send():
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
    threading.Thread(target=send).start()
    received = 0
    while more := connection.recv(65536):
        received += len(more)
print(received)
"""


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send back what is received."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def echo_server() -> AsyncIterator[str]:
    """Serve on a port of the host; provide its number."""
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    async with server:
        yield str(server.sockets[0].getsockname()[1])


@pytest.mark.parametrize("host", ["", "127.0.0.1:", "localhost:"])
async def test_a_program_reaches_a_forwarded_port(tmp_path: Path, host: str) -> None:
    """At the same address as outside; everything arrives, in both directions."""
    async with process_harness(tmp_path) as harness, echo_server() as port:
        client = (sys.executable, "-c", ECHO_CLIENT, host.rstrip(":") or "127.0.0.1", port)
        assert await harness.output(*client, options=("--forward", f"{host}{port}")) == "5000000\n"


async def test_a_program_reaches_no_other_port(tmp_path: Path) -> None:
    """Only what was forwarded."""
    async with process_harness(tmp_path) as harness, echo_server() as port:
        client = (sys.executable, "-c", ECHO_CLIENT, "127.0.0.1", port)
        program = harness.start(*client, options=("--forward", str(free_port())))
        assert await harness.exit_code(program) == 1
        assert "ConnectionRefusedError" in harness.err()


@pytest.mark.parametrize("host", ["", f"{'x' * 64}.example:"], ids=["", "no host name"])
async def test_a_forwarded_port_that_does_not_answer(tmp_path: Path, host: str) -> None:
    """The program gets an error, not an empty answer."""
    port = str(free_port())
    script = f"import socket; socket.create_connection(('127.0.0.1', {port})).recv(1)"
    async with process_harness(tmp_path) as harness:
        program = harness.start(sys.executable, "-c", script, options=("--forward", host + port))
        assert await harness.exit_code(program) == 1
        assert "ConnectionResetError" in harness.err()


@with_process_harness
async def test_the_address_of_a_forwarded_port_exists_inside(harness: ProcessHarness) -> None:
    """So that a program needs no other settings inside; the port is taken."""
    script = """
import os, socket
socket.create_server(("192.0.2.7", 0)).close()
try:
    socket.create_server(("192.0.2.7", 6443))
except OSError as error:
    print(os.strerror(error.errno))
"""
    options = ("--forward", "192.0.2.7:6443", "--forward", "192.0.2.8:6443")
    printed = await harness.output(sys.executable, "-c", script, options=options)
    assert printed == "Address already in use\n"


@needs_mounts
@with_process_harness
async def test_the_name_of_a_forwarded_host_resolves_inside(harness: ProcessHarness) -> None:
    """To the address at which the port is forwarded."""
    script = "import socket; print(socket.gethostbyname('api.example'))"
    options = ("--forward", "api.example:6443")
    assert await harness.output(sys.executable, "-c", script, options=options) == "127.0.0.1\n"


async def test_a_port_that_is_in_use(tmp_path: Path) -> None:
    """Exec does not start, and says which port it is."""
    async with process_harness(tmp_path) as harness:
        port = str(free_port())
        await harness.start_counter(options=("--forward", port))
        program = harness.start("true", options=("--forward", port))
        assert await harness.exit_code(program) == 1
        message = f"fairwarning: cannot listen on 127.0.0.1:{port}: Address already in use\n"
        assert harness.err(1) == message
