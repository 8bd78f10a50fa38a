"""Programs of one machine share its network."""

import signal
import sys

import pytest

from tests.fixtures.requirements import needs_namespaces, needs_root_namespaces, needs_setpriv
from tests.fixtures.waiting import wait_until_async
from tests.machines.process_harness import ProcessHarness, with_process_harness
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
