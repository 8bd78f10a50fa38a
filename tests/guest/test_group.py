"""Exchange of liveness and readiness: through a folder, or over HTTP."""

import json
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from fairwarning.guest.agent import group as module
from fairwarning.guest.agent.config import GroupSettings
from fairwarning.guest.agent.group import HttpPeers, PeerDirectory, SharedFolder, create_peers
from fairwarning.guest.agent.health import HealthServer
from fairwarning.guest.agent.plan import GroupMembers
from tests.fixtures.http import free_port
from tests.guest.notices import event

pytestmark = pytest.mark.spec("G5")

NAMES = ("vm-1", "vm-2", "vm-3")
SHARED = event("A", "VM-1", "_vm-2", "vm-3")


def members(alive: tuple[str, ...], ready: tuple[str, ...] = ()) -> GroupMembers:
    """Return group members that are alive and ready."""
    return GroupMembers(frozenset(alive), frozenset(ready))


# --- Folders --------------------------------------------------------------------------------------


def folders(place: Path) -> list[SharedFolder]:
    """Create three machines, each of which has read the folder once."""
    folders = [SharedFolder(place, name) for name in NAMES]
    for folder in folders:
        folder.members(SHARED)
    return folders


def test_alive_and_ready(tmp_path: Path) -> None:
    """Names are normalized, whatever the event's spelling."""
    first, second, third = folders(tmp_path)
    assert first.members(SHARED) == members(NAMES)
    second.signal_ready(SHARED)
    third.signal_ready(SHARED)
    second.signal_ready(SHARED)
    assert first.members(SHARED) == members(NAMES, ("vm-2", "vm-3"))
    assert third.members(event("B", *NAMES)) == members(NAMES)


def test_a_machine_without_heartbeats_is_not_alive(tmp_path: Path) -> None:
    """Modification times are compared with each other, so clocks may differ."""
    first, second, _ = folders(tmp_path)
    second.signal_ready(SHARED)
    for name, age in (("vm-2", module.ALIVE_SECONDS + 1), ("vm-3", module.ALIVE_SECONDS - 2)):
        path = tmp_path / "alive" / name
        when = path.stat().st_mtime - age
        os.utime(path, (when, when))
    assert first.members(SHARED) == members(("vm-1", "vm-3"), ("vm-2",))


def test_a_machine_that_never_started_is_not_alive(tmp_path: Path) -> None:
    """The folder need not exist."""
    folder = SharedFolder(tmp_path / "new", "vm-2")
    assert folder.members(SHARED) == members(("vm-2",))


def test_finished_events_are_removed(tmp_path: Path) -> None:
    """Each machine deletes its own file, the last one the folder."""
    first, second, _ = folders(tmp_path)
    first.signal_ready(SHARED)
    second.signal_ready(SHARED)
    first.forget("A")
    assert second.members(SHARED).ready == {"vm-2"}
    second.forget("a")
    second.forget("A")
    assert [path.name for path in tmp_path.iterdir()] == ["alive"]


@pytest.mark.parametrize("name", ["../../etc", "a/b", "..", ".", "alive", "x" * 200, "\u00fc \0"])
def test_no_id_and_no_name_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    """Ids and names are untrusted; they may even equal the name of our own folder."""
    place = tmp_path / "shared"
    odd = event(name, name, "vm-2")
    folder = SharedFolder(place, name)
    folder.members(odd)
    folder.signal_ready(odd)
    assert name.lower() in folder.members(odd).ready
    folder.forget(name)
    assert folder.members(odd).ready == set()
    assert [path.name for path in tmp_path.iterdir()] == ["shared"]


# --- Peers ----------------------------------------------------------------------------------------


@contextmanager
def serving(peers: HttpPeers) -> Iterator[int]:
    """Run the health server for peers."""
    health = HealthServer(
        "127.0.0.1:0", lambda: True, dict, lambda event: event.upper() in peers.ready
    )
    try:
        yield health.port
    finally:
        health.close()


def test_http_peers() -> None:
    """A peer that answers is alive; a path prefix is kept."""
    second = HttpPeers({}, "vm-2")
    unused = free_port()
    with serving(second) as port:
        urls = {"VM-2": f"http://127.0.0.1:{port}", "vm-3": f"http://127.0.0.1:{unused}"}
        first = HttpPeers(urls, "vm-1")
        assert first.members(SHARED) == members(("vm-1", "vm-2"))
        second.signal_ready(SHARED)
        first.signal_ready(SHARED)
        assert first.members(SHARED) == members(("vm-1", "vm-2"), ("vm-1", "vm-2"))
        second.forget("a")
        first.forget("A")
        assert first.members(SHARED) == members(("vm-1", "vm-2"))


def test_a_peer_that_is_not_listed_is_not_alive() -> None:
    """Its URL is unknown."""
    assert HttpPeers({}, "vm-1").members(SHARED) == members(("vm-1",))


@contextmanager
def unexpected_server(status: int, body: bytes) -> Iterator[str]:
    """Run a server that sends something else."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Do nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (500, b'{"ready": true}'),
        (404, b"{}"),
        (200, b"what?"),
        (200, b"[]"),
        (200, b"{}"),
        (200, b'{"ready": true, "x": "' + b"x" * 5000 + b'"}'),
        (200, b"[" * 4000),
    ],
)
def test_a_peer_with_an_unexpected_response_is_not_alive(status: int, body: bytes) -> None:
    """It is not an agent."""
    with unexpected_server(status, body) as url:
        assert HttpPeers({"vm-2": url}, "vm-1").members(SHARED) == members(("vm-1",))


def test_unresponsive_peers_cost_one_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """All peers are queried concurrently."""
    monkeypatch.setattr(module, "_TIMEOUT_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        peers = HttpPeers({"vm-2": url, "vm-3": url}, "vm-1")
        assert peers.members(SHARED) == members(("vm-1",))


def test_an_id_is_quoted() -> None:
    """Ids are untrusted."""
    second = HttpPeers({}, "vm-2")
    odd = event("a/b?c#d \u00fc", *NAMES)
    second.signal_ready(odd)
    with serving(second) as port:
        first = HttpPeers({"vm-2": f"http://127.0.0.1:{port}/"}, "vm-1")
        assert "vm-2" in first.members(odd).ready


# --- Selection ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "kind"),
    [
        (GroupSettings(folder="/shared"), SharedFolder),
        (GroupSettings(peers={"vm-2": "http://a"}), HttpPeers),
    ],
)
def test_the_configuration_selects_the_kind(
    group: GroupSettings, kind: type[PeerDirectory]
) -> None:
    """One of three."""
    assert isinstance(create_peers(group, "vm-1"), kind)


def test_readiness_is_json() -> None:
    """In the format that `members` reads."""
    second = HttpPeers({}, "vm-2")
    second.signal_ready(SHARED)
    with serving(second) as port, socket.create_connection(("127.0.0.1", port)) as asking:
        asking.sendall(b"GET /ready/a HTTP/1.0\r\n\r\n")
        response = b"".join(iter(lambda: asking.recv(4096), b""))
    assert json.loads(response.partition(b"\r\n\r\n")[2]) == {"ready": True}
