"""How machines that share an event tell each other that they are alive and ready (G5)."""

import http.client
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlsplit

from fairwarning.guest.agent.config import GroupSettings
from fairwarning.guest.agent.plan import GroupMembers
from fairwarning.guest.events import Event, normalize_name

ALIVE_SECONDS = 10.0  # a machine without a heartbeat for this long is not alive
_TIMEOUT_SECONDS = 2.0
_CONCURRENT_PEERS = 8


class PeerDirectory(Protocol):
    """The other machines of a group."""

    def heartbeat(self) -> None:
        """Show that this machine is alive; called about once a second."""

    def signal_ready(self, event: Event) -> None:
        """Tell the group that this machine is ready for the event."""

    def members(self, event: Event) -> GroupMembers:
        """Return the machines that are alive and those that are ready, by normalized name."""

    def forget(self, event: str) -> None:
        """Remove what was stored for an event that is over."""


def create_peers(group: GroupSettings, name: str) -> PeerDirectory:
    """Return the peer directory that the configuration selects."""
    if group.folder:
        return SharedFolder(Path(group.folder), name)
    if group.kubernetes:
        from fairwarning.guest.agent.kubernetes import KubernetesNodes  # noqa: PLC0415  (an optional dependency)

        return KubernetesNodes(name)
    return HttpPeers(group.peers, name)


class SharedFolder:
    """A shared folder with one file for a machine's heartbeat and one for its readiness.

    Only modification times of files are compared, so the machines' clocks may differ.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = normalize_name(name)

    def heartbeat(self) -> None:
        """Touch this machine's heartbeat file."""
        alive = self._folder / "alive"
        alive.mkdir(parents=True, exist_ok=True)
        (alive / _file_name(self._name)).touch()

    def signal_ready(self, event: Event) -> None:
        """Create this machine's readiness file."""
        folder = self._event_folder(event.id)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _file_name(self._name)).touch()

    def members(self, event: Event) -> GroupMembers:
        """Read the files of all machines."""
        self.heartbeat()
        alive = self._folder / "alive"
        now = (alive / _file_name(self._name)).stat().st_mtime
        names = [normalize_name(resource) for resource in event.resources]
        living = {
            name for name in names if now - _modified(alive / _file_name(name)) < ALIVE_SECONDS
        }
        folder = self._event_folder(event.id)
        ready = {name for name in names if (folder / _file_name(name)).exists()}
        return GroupMembers(frozenset(living), frozenset(ready))

    def forget(self, event: str) -> None:
        """Delete this machine's readiness file, and the event's folder if it is empty."""
        folder = self._event_folder(event)
        try:
            (folder / _file_name(self._name)).unlink(missing_ok=True)
            folder.rmdir()
        except OSError:
            pass  # other machines' files remain, or the folder never existed

    def _event_folder(self, event: str) -> Path:
        return self._folder / _file_name(event.upper())


def _file_name(name: str) -> str:
    return quote(name, safe="").replace(".", "%2E")  # a name may be `..`


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return float("-inf")


class HttpPeers:
    """The agents of the other machines, queried over HTTP for their readiness."""

    def __init__(self, urls: Mapping[str, str], name: str) -> None:
        self._urls = {normalize_name(peer): url for peer, url in urls.items()}
        self._name = normalize_name(name)
        self.ready: set[str] = set()
        """Events that this machine is ready for; the health server publishes them."""
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  (most agents have no peers)

        self._executor = ThreadPoolExecutor(_CONCURRENT_PEERS, "peers")

    def heartbeat(self) -> None:
        """Do nothing: a reachable health server shows that the machine is alive."""

    def signal_ready(self, event: Event) -> None:
        """Publish readiness with the health server."""
        self.ready.add(event.id.upper())

    def members(self, event: Event) -> GroupMembers:
        """Query all peers concurrently."""
        names = [normalize_name(resource) for resource in event.resources]
        queries = {
            name: self._executor.submit(_query, self._urls.get(name, ""), event.id)
            for name in names
            if name != self._name
        }
        results = {name: query.result() for name, query in queries.items()}
        alive = {name for name, ready in results.items() if ready is not None} | {self._name}
        ready = {name for name, is_ready in results.items() if is_ready}
        if event.id.upper() in self.ready:
            ready.add(self._name)
        return GroupMembers(frozenset(alive), frozenset(ready))

    def forget(self, event: str) -> None:
        """Withdraw readiness."""
        self.ready.discard(event.upper())


def _query(url: str, event: str) -> bool | None:
    """Return whether a peer is ready; None if it does not answer."""
    parts = urlsplit(url)
    if not parts.hostname:
        return None
    connection_class: Callable[..., http.client.HTTPConnection] = (
        http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    )
    connection = connection_class(parts.hostname, parts.port, timeout=_TIMEOUT_SECONDS)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/ready/{quote(event, safe='')}")
        response = connection.getresponse()
        body = json.loads(response.read(4096))
        return bool(body["ready"]) if response.status == http.client.OK else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError, http.client.HTTPException):
        return None
    finally:
        connection.close()
