"""Ports of the host in a machine's network: `--forward`."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.fixtures.http import free_port
from tests.fixtures.programs import run_program
from tests.fixtures.requirements import needs_mounts, needs_namespaces
from tests.machines.process_harness import (
    EXEC,
    ProcessHarness,
    process_harness,
    with_process_harness,
)

pytestmark = pytest.mark.spec("O3")

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


@needs_namespaces
@pytest.mark.parametrize("host", ["", "127.0.0.1:", "localhost:"])
async def test_a_program_reaches_a_forwarded_port(tmp_path: Path, host: str) -> None:
    """At the same address as outside; everything arrives, in both directions."""
    async with process_harness(tmp_path) as harness, echo_server() as port:
        client = (sys.executable, "-c", ECHO_CLIENT, host.rstrip(":") or "127.0.0.1", port)
        assert await harness.output(*client, options=("--forward", f"{host}{port}")) == "5000000\n"


@needs_namespaces
async def test_a_program_reaches_no_other_port(tmp_path: Path) -> None:
    """Only what was forwarded."""
    async with process_harness(tmp_path) as harness, echo_server() as port:
        client = (sys.executable, "-c", ECHO_CLIENT, "127.0.0.1", port)
        program = harness.start(*client, options=("--forward", str(free_port())))
        assert await harness.exit_code(program) == 1
        assert "ConnectionRefusedError" in harness.err()


@needs_namespaces
@pytest.mark.parametrize("host", ["", f"{'x' * 64}.example:"], ids=["", "no host name"])
async def test_a_forwarded_port_that_does_not_answer(tmp_path: Path, host: str) -> None:
    """The program gets an error, not an empty answer."""
    port = str(free_port())
    script = f"import socket; socket.create_connection(('127.0.0.1', {port})).recv(1)"
    async with process_harness(tmp_path) as harness:
        program = harness.start(sys.executable, "-c", script, options=("--forward", host + port))
        assert await harness.exit_code(program) == 1
        assert "ConnectionResetError" in harness.err()


@needs_namespaces
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


@needs_namespaces
@needs_mounts
@with_process_harness
async def test_the_name_of_a_forwarded_host_resolves_inside(harness: ProcessHarness) -> None:
    """To the address at which the port is forwarded."""
    script = "import socket; print(socket.gethostbyname('api.example'))"
    options = ("--forward", "api.example:6443")
    assert await harness.output(sys.executable, "-c", script, options=options) == "127.0.0.1\n"


@needs_namespaces
async def test_a_port_that_is_in_use(tmp_path: Path) -> None:
    """Exec does not start, and says which port it is."""
    async with process_harness(tmp_path) as harness:
        port = str(free_port())
        await harness.start_counter(options=("--forward", port))
        program = harness.start("true", options=("--forward", port))
        assert await harness.exit_code(program) == 1
        message = f"fairwarning: cannot listen on 127.0.0.1:{port}: Address already in use\n"
        assert harness.err(1) == message


@pytest.mark.parametrize(
    "value", ["", "x", "0", "65536", "host:", "[::1]:80", "a b:80", "169.254.169.254:80"]
)
def test_wrong_ports(value: str) -> None:
    """Exit code 2 and what is allowed."""
    ended = run_program(*EXEC, "--forward", value, "web_0", "--", "true")
    assert ended.returncode == 2
    assert "such as 6443" in ended.stderr or "is not a name or an IPv4 address" in ended.stderr
