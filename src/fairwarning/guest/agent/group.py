"""How machines that share an event learn of each other: who is alive, and who is ready (G5)."""

import http.client
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import quote, urlsplit

from fairwarning.guest.agent.config import GroupSettings
from fairwarning.guest.agent.plan import GroupMembers
from fairwarning.guest.events import Event, plain

ALIVE_SECONDS = 10.0  # a machine that has been silent for so long is not
_ASK_SECONDS = 2.0
_PEERS_AT_ONCE = 8


class PeerDirectory(Protocol):
    """The other machines of a group."""

    def live(self) -> None:
        """Show that this machine lives: about once a second."""

    def tell(self, event: Event) -> None:
        """This machine is ready for the event."""

    def look(self, event: Event) -> GroupMembers:
        """Who is alive, and who of them is ready, by their plain names."""

    def forget(self, event: str) -> None:
        """The event is over."""


def company(group: GroupSettings, name: str) -> PeerDirectory:
    """The way to the others that the configuration names."""
    if group.folder:
        return SharedFolder(Path(group.folder), name)
    if group.kubernetes:
        from fairwarning.guest.agent.kubernetes import KubernetesNodes  # noqa: PLC0415  (an extra has it)

        return KubernetesNodes(name)
    return HttpPeers(group.peers, name)


class SharedFolder:
    """A folder that all machines see: a file says that its machine lives, another that it is ready.

    Times are the files' own, so clocks may differ: what is compared is one file's age to another's.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._name = plain(name)

    def live(self) -> None:
        """Touch a file."""
        alive = self._folder / "alive"
        alive.mkdir(parents=True, exist_ok=True)
        (alive / _file(self._name)).touch()

    def tell(self, event: Event) -> None:
        """Leave a file."""
        place = self._event(event.id)
        place.mkdir(parents=True, exist_ok=True)
        (place / _file(self._name)).touch()

    def look(self, event: Event) -> GroupMembers:
        """Look at everybody's files."""
        self.live()
        alive = self._folder / "alive"
        now = (alive / _file(self._name)).stat().st_mtime
        names = [plain(one) for one in event.resources]
        living = {one for one in names if now - _age(alive / _file(one)) < ALIVE_SECONDS}
        ready = {one for one in names if (self._event(event.id) / _file(one)).exists()}
        return GroupMembers(frozenset(living), frozenset(ready))

    def forget(self, event: str) -> None:
        """Take our own file away, and the folder if it was the last."""
        place = self._event(event)
        try:
            (place / _file(self._name)).unlink(missing_ok=True)
            place.rmdir()
        except OSError:
            pass  # somebody else's is still there, or nobody ever left one

    def _event(self, event: str) -> Path:
        return self._folder / _file(event.upper())


def _file(name: str) -> str:
    return quote(name, safe="").replace(".", "%2E")  # a name may be `..`


def _age(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return float("-inf")


class HttpPeers:
    """The agents of the others, asked over HTTP; each says for which events it is ready."""

    def __init__(self, urls: Mapping[str, str], name: str) -> None:
        self._urls = {plain(peer): url for peer, url in urls.items()}
        self._name = plain(name)
        self.ready: set[str] = set()
        """Events that this machine is ready for; the agent's own server tells the others."""
        from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415  (most have no peers)

        self._asking = ThreadPoolExecutor(_PEERS_AT_ONCE, "peers")

    def live(self) -> None:
        """Its agent's own server shows it."""

    def tell(self, event: Event) -> None:
        """Have it told to whoever asks."""
        self.ready.add(event.id.upper())

    def look(self, event: Event) -> GroupMembers:
        """Ask everybody at once."""
        names = [plain(one) for one in event.resources if plain(one) != self._name]
        asked = {n: self._asking.submit(_ask, self._urls.get(n, ""), event.id) for n in names}
        said = {name: answer.result() for name, answer in asked.items()}
        alive = {name for name, ready in said.items() if ready is not None} | {self._name}
        ready = {name for name, is_ready in said.items() if is_ready}
        if event.id.upper() in self.ready:
            ready.add(self._name)
        return GroupMembers(frozenset(alive), frozenset(ready))

    def forget(self, event: str) -> None:
        """No longer ready for it."""
        self.ready.discard(event.upper())


def _ask(url: str, event: str) -> bool | None:
    """Whether a peer is ready; None if it does not answer."""
    parts = urlsplit(url)
    if not parts.hostname:
        return None
    kind: Callable[..., http.client.HTTPConnection] = (
        http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    )
    connection = kind(parts.hostname, parts.port, timeout=_ASK_SECONDS)
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/ready/{quote(event, safe='')}")
        response = connection.getresponse()
        told = json.loads(response.read(4096))
        return bool(told["ready"]) if response.status == http.client.OK else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError, http.client.HTTPException):
        return None
    finally:
        connection.close()
