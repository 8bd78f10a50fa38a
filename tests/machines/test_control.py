"""The control connection: which peers are accepted, and how invalid messages are handled."""

import asyncio
import gc
import os
import socket
import stat
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from fairwarning.core.errors import Refused
from fairwarning.machines.process import control
from fairwarning.machines.process.control import (
    ControlConnection,
    Message,
    ProtocolError,
    check_peer,
)
from tests.fixtures.programs import run_program
from tests.fixtures.requirements import needs_linux, needs_namespaces, needs_unshare
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until_async
from tests.machines.process_harness import EXEC, ProcessHarness, with_process_harness


async def answer(harness: ProcessHarness, line: bytes, *descriptors: int) -> Message | None:
    """Send a line to the service and return its answer."""
    client = control.connect(harness.data)
    socket.send_fds(client, [line], list(descriptors))
    connection = ControlConnection(client)
    try:
        return await connection.receive()
    finally:
        connection.close()


async def refusal_of_endpoint(harness: ProcessHarness, *descriptors: int) -> str:
    """Attach, pass descriptors as the endpoint, and return the service's error text."""
    connection = ControlConnection(control.connect(harness.data))
    try:
        connection.send({"attach": "web_0"})
        assert "attached" in (await connection.receive() or {})
        socket.send_fds(connection._connection, [b'{"up": true}\n'], list(descriptors))
        return str((await connection.receive() or {})["refused"])
    finally:
        connection.close()


@with_process_harness
async def test_only_the_user_may_connect(harness: ProcessHarness) -> None:
    """The socket is accessible to its owner only, and is removed with the service."""
    path = harness.data / "control.sock"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    await harness.driver.close()
    assert not path.exists()


class ForeignSocket(socket.socket):
    """A connection from a process of another user."""

    def getsockopt(self, *_args: object) -> bytes:  # type: ignore[override]
        return struct.pack("3i", 1, os.getuid() + 4711, 1)


def test_another_user_is_refused() -> None:
    """Every user but root is refused."""
    with ForeignSocket() as connection, pytest.raises(Refused) as caught:
        check_peer(connection)
    assert "another user" in caught.value.message


@with_process_harness
async def test_a_connection_that_was_just_accepted_is_closed_with_the_service(
    harness: ProcessHarness,
) -> None:
    """Its task is cancelled before it starts; a socket left open would raise a warning."""
    before = len(harness.driver._tasks)
    with control.connect(harness.data) as connection:
        while len(harness.driver._tasks) == before:  # noqa: ASYNC110  (one turn at a time)
            await asyncio.sleep(0)
        await harness.driver.close()
        connection.settimeout(LIMIT_SECONDS)
        assert connection.recv(1) == b""
    gc.collect()


@with_process_harness
async def test_the_socket_of_a_service_that_died_is_replaced(harness: ProcessHarness) -> None:
    """A killed service leaves its socket behind."""
    await harness.driver.close()
    control.listen(harness.data).close()
    with pytest.raises(ConnectionRefusedError):
        control.connect(harness.data)
    await harness.start_service()
    control.connect(harness.data).close()


@pytest.mark.parametrize(
    "line",
    [b"attach\n", b"[]\n", b'{"attach": 5}\n', b'{"done": "x", "error": ""}\n', b"x" * 100_000],
    ids=["not JSON", "not an object", "not a name", "not attached", "too long"],
)
@with_process_harness
async def test_an_invalid_message_is_refused(harness: ProcessHarness, line: bytes) -> None:
    """No endpoint is opened."""
    reply = await answer(harness, line)
    assert reply is not None
    assert str(reply["refused"]).startswith("invalid message")
    assert harness.listeners.open == []


@with_process_harness
async def test_an_invalid_message_after_attaching_detaches(harness: ProcessHarness) -> None:
    """The program's marker and listener are removed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        lines = b'{"attach": "web_0"}\n{"up": true}\n{"up": 5}\n'
        reply = await answer(harness, lines, listener.fileno())
    machine = {"attached": "web_0", "host_name": "web000000", "scope": "web"}
    assert reply == machine | {"power": "running"}
    await wait_until_async(lambda: not harness.listeners.open, "the listener closes")
    assert not list((harness.data / "attached").iterdir())


def open_descriptors() -> int:
    """Return how many descriptors this process has."""
    return len(list(Path("/proc/self/fd").iterdir()))


@needs_linux
@pytest.mark.parametrize("line", [b'{"attach": "nobody"}\n', b'{"attach": 5}\n'])
@with_process_harness
async def test_descriptors_of_a_refused_message_are_closed(
    harness: ProcessHarness, line: bytes
) -> None:
    """A program that is refused again and again does not use up the service's descriptors."""
    before = open_descriptors()
    descriptor = os.open("/dev/null", os.O_RDONLY)
    for _ in range(20):
        assert "refused" in (await answer(harness, line, descriptor) or {})
    os.close(descriptor)
    await wait_until_async(lambda: open_descriptors() == before, "they are closed")


@needs_linux
@with_process_harness
async def test_a_descriptor_that_is_no_endpoint_is_closed(harness: ProcessHarness) -> None:
    """It is refused, whatever it is."""
    before = open_descriptors()
    descriptor = os.open("/dev/null", os.O_RDONLY)
    for _ in range(20):
        assert "not a listening socket" in await refusal_of_endpoint(harness, descriptor)
    os.close(descriptor)
    with socket.socket() as other:
        assert "not a listening socket" in await refusal_of_endpoint(harness, other.fileno())
    assert "no socket is attached" in await refusal_of_endpoint(harness)
    await wait_until_async(lambda: open_descriptors() == before, "they are closed")


@with_process_harness
async def test_a_freeze_of_unknown_duration_takes_the_usual_time(
    harness: ProcessHarness,
) -> None:
    """An order always contains a duration."""
    connection = ControlConnection(control.connect(harness.data))
    connection.send({"attach": "web_0"})
    await connection.receive()
    freeze = harness.submit("freeze")
    assert await connection.receive() == {"order": freeze, "do": "freeze", "seconds": 9}
    connection.close()
    assert "disconnected" in await harness.result(freeze)


async def test_a_peer_that_does_not_read_is_disconnected() -> None:
    """Messages for it are not buffered without limit."""
    ours, theirs = socket.socketpair()
    connection = ControlConnection(ours)
    for _ in range(10_000):
        connection.send({"text": "x" * 1000})
    assert await connection.receive() is None
    connection.close()
    theirs.close()


async def test_received_sockets_are_limited() -> None:
    """They are closed with the connection."""
    ours, theirs = socket.socketpair()
    connection = ControlConnection(ours)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for _ in range(3):
            socket.send_fds(theirs, [b" "], [listener.fileno()] * 2)
        with pytest.raises(ProtocolError):
            await connection.receive()
    connection.close()
    theirs.close()


# --- Programs inside a machine ---


# Connects to the control socket in a folder, tries to attach as a machine, and prints the answer.
ATTACK = """
import os, socket, sys
folder, machine = sys.argv[1:]
os.chdir(folder)
connection = socket.socket(socket.AF_UNIX)
connection.connect("control.sock")
try:
    connection.sendall(b'{"attach": "%s"}\\n' % machine.encode())
except BrokenPipeError:
    pass  # it was refused at once
print(connection.recv(65536).decode())
"""

# As above, but the process that connected has ended when the service looks at it.
ORPHAN_ATTACK = ATTACK.replace("try:", "if os.fork():\n    os._exit(0)\ntry:")

REFUSAL = "a program inside a machine cannot act as another one"


@pytest.mark.spec("O3")
@needs_namespaces
def test_a_program_cannot_attach_as_another_machine(tmp_path: Path) -> None:
    """It can reach the control socket, as it has the user's files, and is refused."""
    attack = tmp_path / "attack.py"
    attack.write_text(ATTACK)
    with ServiceProcess(tmp_path / "data", "--sample", "--memory") as service:
        command = (sys.executable, str(attack), str(service.data), "db_1")
        done = run_program(*service.inside("db_0", *command))
        assert done.returncode == 0, done.stderr
        assert REFUSAL in done.stdout
        assert '"attached"' not in done.stdout


@pytest.mark.spec("O3")
@needs_namespaces
@needs_unshare
@with_process_harness
async def test_a_new_namespace_does_not_help_a_program(harness: ProcessHarness) -> None:
    """It is still outside the service's network."""
    attack = (sys.executable, "-c", ATTACK, str(harness.data), "web_1")
    program = harness.start("unshare", "--user", "--net", *attack)
    assert await harness.exit_code(program) == 0, harness.err()
    assert REFUSAL in harness.out()


@pytest.mark.spec("O3")
@needs_namespaces
@with_process_harness
async def test_exec_inside_a_machine_is_refused(harness: ProcessHarness) -> None:
    """The message says where to run it."""
    inner = (*EXEC, "--data", str(harness.data), "web_1", "--", "true")
    program = harness.start(*inner)
    assert await harness.exit_code(program) == 4
    assert REFUSAL in harness.err()


@pytest.mark.spec("O3")
@with_process_harness
async def test_a_process_that_has_ended_is_refused(harness: ProcessHarness, tmp_path: Path) -> None:
    """Another process may have its pid by now, so the service cannot tell where it ran."""
    answer = tmp_path / "answer"
    attack = (sys.executable, "-c", ORPHAN_ATTACK, str(harness.data), "web_1")
    with answer.open("wb") as out:
        subprocess.run(attack, stdout=out, check=True)  # noqa: ASYNC221  (service must wait)
    await wait_until_async(lambda: answer.read_text().endswith("\n\n"), "it is answered")
    assert "cannot tell where exec runs" in answer.read_text()
