"""A Unix socket for each machine (M22), to mount into a container or a guest."""

import socket
from contextlib import suppress
from pathlib import Path

from fairwarning.core.errors import Refused
from fairwarning.metadata.listeners import open_unix
from fairwarning.metadata.server import MetadataServer
from fairwarning.server.machine_listeners import MachineListeners, Place
from fairwarning.service.fleet import Fleet


class MachineSockets(MachineListeners[str]):
    """Keeps one socket per machine in a folder, named after the machine."""

    kind = "socket"

    def __init__(self, folder: Path, server: MetadataServer, fleet: Fleet) -> None:
        super().__init__(server, fleet)
        self._folder = folder
        self._inodes: dict[str, int] = {}  # of the files, by name

    async def open_all(self) -> None:
        """Open the sockets of existing machines, and follow changes."""
        self._folder.mkdir(0o700, parents=True, exist_ok=True)
        await super().open_all()
        self._remove_abandoned()

    def _slot_of(self, place: Place) -> str:
        if "/" in place[1]:
            raise Refused("NoSocket", "its name contains a slash")
        return place[1]

    def _bind(self, slot: str) -> socket.socket:
        path = self._path(slot)
        listening = open_unix(path)
        self._inodes[slot] = path.stat().st_ino
        return listening

    def _release(self, slot: str) -> None:
        """Remove the file of a socket, unless another process has replaced it."""
        path = self._path(slot)
        with suppress(OSError):  # it is gone, or the folder is
            if path.stat().st_ino == self._inodes.pop(slot, None):
                path.unlink()

    def _taken(self, _: str) -> str:
        return "another machine has the same name"

    def _remove_abandoned(self) -> None:
        """Remove sockets that a killed process has left behind, for machines that are gone."""
        for path in self._folder.glob("*.sock"):
            if path.stem not in self._claims and path.is_socket() and _refuses(path):
                path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.sock"


def _refuses(path: Path) -> bool:
    """Whether no program listens on a socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(0)
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:  # for example a full queue: a program listens
            return False
    return False
