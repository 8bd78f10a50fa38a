"""The control connection: who may speak, and what happens to those who say something else."""

import asyncio
import gc
import json
import os
import socket
import stat
import struct
from pathlib import Path

import pytest

from fairwarning.core.errors import Refused
from fairwarning.machines.process import control, driver
from fairwarning.machines.process.control import ControlConnection, Message, ProtocolError
from tests.fixtures.waiting import LIMIT_SECONDS, run_async, wait_until_async
from tests.machines.process_harness import ProcessDriverHarness, process_harness


async def answer(harness: ProcessDriverHarness, line: bytes, *descriptors: int) -> Message | None:
    """What the service says to a line."""
    connection = control.connect(harness.data)
    socket.send_fds(connection, [line], list(descriptors))
    wire = ControlConnection(connection)
    try:
        return await wire.receive()
    finally:
        wire.close()


@run_async
async def test_only_the_user_may_speak(tmp_path: Path) -> None:
    """The socket is nobody else's, and goes with the service."""
    async with process_harness(tmp_path) as harness:
        path = harness.data / "control.sock"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        await harness.driver.close()
        assert not path.exists()


class Stranger(socket.socket):
    """A connection of somebody else's, who got at the socket somehow."""

    def getsockopt(self, *_args: object) -> bytes:  # type: ignore[override]
        return struct.pack("3i", 1, os.getuid() + 4711, 1)


def test_another_user_is_refused() -> None:
    """Whoever they are, unless they are root."""
    with Stranger() as connection, pytest.raises(Refused) as caught:
        driver._check_peer(connection)
    assert "another user" in caught.value.message


@run_async
async def test_a_connection_that_was_just_accepted_is_closed_with_the_service(
    tmp_path: Path,
) -> None:
    """Its task is cancelled before it begins; a socket left open would warn, which is an error."""
    async with process_harness(tmp_path) as harness:
        before = len(harness.driver._tasks)
        with control.connect(harness.data) as connection:
            while len(harness.driver._tasks) == before:  # noqa: ASYNC110  (to the very turn)
                await asyncio.sleep(0)
            await harness.driver.close()
            connection.settimeout(LIMIT_SECONDS)
            assert connection.recv(1) == b""
        gc.collect()


@run_async
async def test_the_socket_of_a_service_that_died_is_replaced(tmp_path: Path) -> None:
    """A service that was killed cannot take its socket away."""
    async with process_harness(tmp_path) as harness:
        await harness.driver.close()
        control.listen(harness.data).close()
        with pytest.raises(ConnectionRefusedError):
            control.connect(harness.data)
        await harness.begin()
        control.connect(harness.data).close()


@pytest.mark.parametrize(
    "line",
    [b"attach\n", b"[]\n", b'{"attach": 5}\n', b'{"done": "x", "error": ""}\n', b"x" * 100_000],
    ids=["not JSON", "not an object", "not a name", "not attached", "too long"],
)
@run_async
async def test_who_speaks_otherwise_is_refused(tmp_path: Path, line: bytes) -> None:
    """And hurts nobody."""
    async with process_harness(tmp_path) as harness:
        said = await answer(harness, line)
        assert said is not None
        assert str(said["refused"]).startswith("not understood")
        assert harness.listeners.open == []


@run_async
async def test_nonsense_after_attaching_detaches(tmp_path: Path) -> None:
    """Its marker and its listener go as well."""
    async with process_harness(tmp_path) as harness:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            said = await answer(harness, b'{"attach": "web_0"}\n{"up": 5}\n', listener.fileno())
        assert said == {"attached": "web_0", "host_name": "web000000", "scope": "web"}
        await wait_until_async(lambda: not harness.listeners.open, "the listener closes")
        assert not list((harness.data / "attached").iterdir())


@run_async
async def test_only_a_listening_socket_is_a_door(tmp_path: Path) -> None:
    """Whatever else comes along is put away."""
    async with process_harness(tmp_path) as harness:
        with socket.socket() as other:
            said = await answer(harness, b'{"attach": "web_0"}\n', other.fileno())
        assert said is not None
        assert "not a listening socket" in str(said["refused"])


@run_async
async def test_a_report_of_what_was_never_ordered(tmp_path: Path) -> None:
    """Is ignored."""
    async with process_harness(tmp_path) as harness:
        wire = ControlConnection(control.connect(harness.data))
        wire.send({"attach": "web_0"})
        assert await wire.receive() is not None
        wire.send({"done": "something", "error": ""})
        reboot = harness.hit("reboot")
        assert await wire.receive() == {"order": reboot, "do": "reboot", "seconds": 0}
        wire.send({"done": reboot, "error": "it burns"})
        assert await harness.over(reboot) == "it burns"
        wire.close()


@run_async
async def test_freezes_of_unknown_length_last_as_they_usually_do(tmp_path: Path) -> None:
    """An order always says for how long."""
    async with process_harness(tmp_path) as harness:
        wire = ControlConnection(control.connect(harness.data))
        wire.send({"attach": "web_0"})
        await wire.receive()
        freeze = harness.hit("freeze")
        assert await wire.receive() == {"order": freeze, "do": "freeze", "seconds": 9}
        wire.close()
        assert "went away" in await harness.over(freeze)


@run_async
async def test_messages_arrive_whole_however_they_are_cut() -> None:
    """A stream knows no messages; lines do."""
    ours, theirs = socket.socketpair()
    wire = ControlConnection(ours)
    receiving = asyncio.create_task(wire.receive())
    for byte in json.dumps({"text": "é"}).encode() + b'\n{"next": 1}\n{"half':
        theirs.send(bytes([byte]))
        await asyncio.sleep(0)
    assert await receiving == {"text": "é"}
    assert await wire.receive() == {"next": 1}
    theirs.close()
    assert await wire.receive() is None
    wire.close()


@run_async
async def test_who_does_not_read_is_hung_up_on() -> None:
    """Nothing is kept for them without a limit."""
    ours, theirs = socket.socketpair()
    wire = ControlConnection(ours)
    for _ in range(10_000):
        wire.send({"text": "x" * 1000})
    assert await wire.receive() is None
    wire.close()
    theirs.close()


@run_async
async def test_sockets_do_not_pile_up() -> None:
    """They are put away with the connection."""
    ours, theirs = socket.socketpair()
    wire = ControlConnection(ours)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        for _ in range(3):
            socket.send_fds(theirs, [b" "], [listener.fileno()] * 2)
        with pytest.raises(ProtocolError):
            await wire.receive()
    wire.close()
    theirs.close()
