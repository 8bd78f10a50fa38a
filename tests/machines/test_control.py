"""The control connection: which peers are accepted, and how invalid messages are handled."""

import asyncio
import gc
import os
import socket
import stat
import struct
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
from tests.fixtures.requirements import needs_linux
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until_async
from tests.machines.process_harness import ProcessHarness, with_process_harness


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
