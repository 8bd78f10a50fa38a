"""The sockets of `--sockets` while machines come and go."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fairwarning.core.model import Machine, Scope, ScopeKind
from fairwarning.server import machine_listeners
from fairwarning.server.machine_sockets import MachineSockets
from tests.fixtures.endpoint import EndpointHarness
from tests.fixtures.postgres.database import database_or_skip
from tests.fixtures.service import ServiceProcess
from tests.fixtures.waiting import wait_until

pytestmark = pytest.mark.spec("M22")

QUICK = '[driver]\nkind = "command"\nprogram = ["true"]\n'
"""A driver that carries out every impact at once."""


def files(folder: Path) -> set[str]:
    """The names of the sockets in a folder."""
    return {path.name for path in folder.iterdir()}


def scope_of(name: str, *machines: str) -> Scope:
    """A scope with these machines."""
    by_name = {machine: Machine(name=machine) for machine in machines}
    return Scope(id=name, kind=ScopeKind.AVAILABILITY_SET, machines=by_name)


@contextmanager
def open_sockets(endpoint: EndpointHarness, folder: Path) -> Iterator[MachineSockets]:
    """Sockets in this folder, on the loop of the endpoint."""

    async def start() -> MachineSockets:
        machine_sockets = MachineSockets(folder, endpoint.server, endpoint.fleet)
        await machine_sockets.open_all()
        return machine_sockets

    machine_sockets = endpoint.run(start())
    yield machine_sockets
    endpoint.call(machine_sockets.close_all)


def listeners(endpoint: EndpointHarness) -> int:
    """The number of listeners, besides that of the harness."""
    return len(endpoint.server._listeners) - 1


def assert_follows(folder: Path, expected: set[str], *changes: tuple[str, Scope | None]) -> None:
    """Check the sockets after changes that follow each other at once."""
    with EndpointHarness() as endpoint, open_sockets(endpoint, folder) as machine_sockets:

        def change() -> None:
            for scope, state in changes:
                machine_sockets._follow(scope, state)

        endpoint.call(change)
        endpoint.call(lambda: machine_sockets._follow("z", scope_of("z", "last")))
        endpoint.wait_until(lambda: "last.sock" in files(folder))  # after all others
        assert endpoint.call(lambda: files(folder)) == expected | {"last.sock"}
        endpoint.wait_until(lambda: listeners(endpoint) == len(expected) + 1)


@pytest.mark.parametrize(
    ("expected", "changes"),
    [
        pytest.param(set(), [("a", scope_of("a", "vm")), ("a", None)], id="deleted at once"),
        pytest.param(
            {"vm.sock"}, [("a", scope_of("a", "vm")), ("a", scope_of("a", "vm"))], id="seen twice"
        ),
        pytest.param(
            {"vm.sock"},
            [("a", scope_of("a", "vm")), ("a", None), ("a", scope_of("a", "vm"))],
            id="created again",
        ),
        pytest.param(
            {"vm.sock"},
            [("a", scope_of("a", "vm")), ("b", scope_of("b", "vm")), ("a", None)],
            id="one of two with the same name",
        ),
        pytest.param(
            {"two.sock"},
            [("a", scope_of("a", "one", "two")), ("a", scope_of("a", "two"))],
            id="one of a scope",
        ),
    ],
)
def test_machines_that_come_and_go_at_once(
    tmp_path: Path, expected: set[str], changes: list[tuple[str, Scope | None]]
) -> None:
    """Exactly those that exist have a listener and a file."""
    assert_follows(tmp_path / "s", expected, *changes)


def test_a_change_that_was_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comparison with the store closes the socket of a machine that is gone."""
    monkeypatch.setattr(machine_listeners, "_COMPARE_SECONDS", 0.05)
    folder = tmp_path / "s"
    with EndpointHarness() as endpoint:
        endpoint.make("av", 2)
        with open_sockets(endpoint, folder) as machine_sockets:
            deleted = scope_of("gone", "deleted")
            endpoint.call(lambda: machine_sockets._follow("gone", deleted))
            endpoint.wait_until(lambda: files(folder) == {"av_0.sock", "av_1.sock"})
            endpoint.wait_until(lambda: listeners(endpoint) == 2)


@pytest.mark.parametrize("method", ["_slot_of", "_bind"])
def test_a_bug_at_one_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """The others have their sockets, health says so, and this one is tried again (IB5)."""
    folder, working = tmp_path / "s", getattr(MachineSockets, method)

    def fail_at_first(sockets: MachineSockets, what: str | tuple[str, str]) -> object:
        if "av_0" in (what, what[1]):
            raise KeyError("bug")
        return working(sockets, what)

    with EndpointHarness() as endpoint:
        endpoint.make("av", 2)
        monkeypatch.setattr(MachineSockets, method, fail_at_first)
        with open_sockets(endpoint, folder) as machine_sockets:
            assert files(folder) == {"av_1.sock"}
            assert "no socket for 1 machines" in endpoint.server.health().problem
            monkeypatch.setattr(MachineSockets, method, working)
            endpoint.call(machine_sockets._retry)
            endpoint.wait_until(lambda: files(folder) == {"av_0.sock", "av_1.sock"})
            endpoint.wait_until(lambda: not endpoint.server.health().problem)


def test_polls_go_on_while_sockets_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event loop has a turn after each machine (IB7)."""
    turns, opened_in, bind = [0], set[int](), MachineSockets._bind

    def note_turn(sockets: MachineSockets, slot: str) -> socket.socket:
        opened_in.add(turns[0])
        return bind(sockets, slot)

    async def count_turns() -> None:
        while True:
            turns[0] += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(MachineSockets, "_bind", note_turn)
    with EndpointHarness() as endpoint:
        endpoint.make("av", 20)
        counting = asyncio.run_coroutine_threadsafe(count_turns(), endpoint._loop)
        with open_sockets(endpoint, tmp_path / "s"):
            counting.cancel()
            assert len(opened_in) == 20


def test_a_file_of_another_process_is_not_removed(tmp_path: Path) -> None:
    """Of two processes with the same folder, the one that ends leaves the other's sockets."""
    folder = tmp_path / "s"
    with EndpointHarness() as one, EndpointHarness() as two:
        one.make("av", 1)
        two.make("av", 1)
        with open_sockets(two, folder):
            pass
        with open_sockets(one, folder):
            opened = folder / "av_0.sock"
            inode = opened.stat().st_ino
            opened.rename(folder / "kept")  # its inode is not used again
            with socket.socket(socket.AF_UNIX) as replacing:
                replacing.bind(os.fspath(opened))
                assert opened.stat().st_ino != inode
        assert "av_0.sock" in files(folder)


# --- The real program ---


def delete(service: ServiceProcess, machine: str) -> None:
    """Delete a machine; nobody polls, so this happens at once."""
    service.ok("POST", f"/api/machines/{machine}/delete", {})


def wait_for(folder: Path, *names: str) -> None:
    """Wait until the folder has exactly these sockets."""
    expected = {f"{name}.sock" for name in names}
    wait_until(lambda: files(folder) == expected, lambda: f"{files(folder)} are {expected}")


def test_a_killed_service_leaves_sockets_that_the_next_one_removes(tmp_path: Path) -> None:
    """Of machines that are gone; a socket on which another program listens stays."""
    folder = tmp_path / "s"
    words = ("--memory", "--sockets", str(folder))
    old = '[[machine]]\nname = "old"\n[[machine]]\nname = "vm"\n'
    with ServiceProcess(tmp_path / "old", *words, fleet=old) as service:
        wait_for(folder, "old", "vm")
        service.process.send_signal(signal.SIGKILL)
        service.process.wait()
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(os.fspath(folder / "other.sock"))
        other.listen()
        new = '[[machine]]\nname = "vm"\n'
        with ServiceProcess(tmp_path / "new", *words, fleet=new) as service:
            assert files(folder) == {"vm.sock", "other.sock"}
            assert service.stop()[0] == 0
    assert files(folder) == {"other.sock"}


def test_machines_deleted_through_another_process(tmp_path: Path) -> None:
    """Their sockets are closed and removed, as are those of a set."""
    url, folder = database_or_skip(), tmp_path / "s"

    def start(name: str, *words: str) -> ServiceProcess:
        return ServiceProcess(tmp_path / name, *words, database=url, fleet=QUICK)

    with start("two") as two:
        with start("one", "--sockets", str(folder)) as one:
            two.ok("POST", "/api/machines", {"name": "vm"})
            two.ok("POST", "/api/machines", {"name": "kept"})
            two.ok("POST", "/api/sets", {"name": "set", "capacity": 2})
            wait_for(folder, "vm", "kept", "set_0", "set_1")
            delete(two, "vm")
            two.ok("DELETE", "/api/sets/set")
            wait_for(folder, "kept")
            one.kill()
        delete(two, "kept")
        two.ok("POST", "/api/machines", {"name": "new"})
        with start("one", "--sockets", str(folder)):
            wait_for(folder, "new")
