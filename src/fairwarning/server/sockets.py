"""A Unix socket for each machine (M22), to mount into a container or a guest."""

import asyncio
import logging
import socket
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from fairwarning.core.errors import FairwarningError
from fairwarning.core.model import Scope
from fairwarning.core.record import record
from fairwarning.metadata.accepting import Listener
from fairwarning.metadata.callers import for_machine
from fairwarning.metadata.listeners import open_unix
from fairwarning.metadata.server import MetadataServer
from fairwarning.service.fleet import Fleet

log = logging.getLogger(__name__)

_PAGE = 1000  # machines read at once
_COMPARE_SECONDS = 60.0
"""Between two comparisons with the store: after a failover, changes may not be followed."""


@record
class _MachineSocket:
    scope: str
    listener: Listener
    inode: int  # of its file


class MachineSockets:
    """Keeps one socket per machine in a folder, named after the machine.

    `_follow` and `_compare` only note which machines exist. One task opens and closes sockets, so
    that a machine which is created and deleted meanwhile leaves nothing behind.
    """

    def __init__(self, folder: Path, server: MetadataServer, fleet: Fleet) -> None:
        self._folder = folder
        self._server = server
        self._fleet = fleet
        self._machines: dict[str, frozenset[str]] = {}  # names by scope
        self._scopes: dict[str, dict[str, None]] = {}  # by name; the first one has the socket
        self._sockets: dict[str, _MachineSocket] = {}
        self._changed: dict[str, None] = {}  # names to look at, in order
        self._awake = asyncio.Event()
        self._followed: set[str] = set()  # scopes that changed during a comparison
        self._tasks: list[asyncio.Task[None]] = []

    async def open_all(self) -> None:
        """Open the sockets of existing machines, and follow changes."""
        self._folder.mkdir(0o700, parents=True, exist_ok=True)
        self._fleet.followers.append(self._follow)
        await self._compare()
        self._remove_abandoned()
        await self._update()
        self._tasks = [asyncio.create_task(work) for work in (self._run(), self._keep_comparing())]

    # --- Which machines exist ---

    def _follow(self, scope: str, state: Scope | None) -> None:
        """Take over the machines of a changed scope; None: it was removed."""
        self._followed.add(scope)
        self._set(scope, state.machines if state else ())

    async def _compare(self) -> None:
        """Take over all machines from the store, but for scopes that change meanwhile."""
        self._followed.clear()
        machines: dict[str, list[str]] = {scope: [] for scope in self._machines}
        last = 0
        while locations := await self._fleet.reader.list_machines(last, _PAGE):
            for location in locations:
                machines.setdefault(location.scope, []).append(location.machine.name)
            last = locations[-1].number
        for scope, names in machines.items():
            if scope not in self._followed:
                self._set(scope, names)

    async def _keep_comparing(self) -> None:
        while True:
            await asyncio.sleep(_COMPARE_SECONDS)
            with suppress(FairwarningError):  # the store is unavailable; the next one counts
                await self._compare()

    def _set(self, scope: str, names: Iterable[str]) -> None:
        before, now = self._machines.get(scope, frozenset()), frozenset(names)
        if now:
            self._machines[scope] = now
        else:
            self._machines.pop(scope, None)
        for name in before - now:
            del self._scopes[name][scope]
            if not self._scopes[name]:
                del self._scopes[name]
        for name in now - before:
            self._scopes.setdefault(name, {})[scope] = None
        for name in before ^ now:
            self._changed[name] = None
        if before != now:
            self._awake.set()

    # --- Opening and closing ---

    async def _run(self) -> None:
        while True:
            await self._awake.wait()
            self._awake.clear()
            await self._update()

    async def _update(self) -> None:
        while self._changed:
            name = next(iter(self._changed))
            del self._changed[name]
            scopes = self._scopes.get(name, {})
            opened = self._sockets.get(name)
            if opened and opened.scope not in scopes:
                self._close(name)
            if scopes and name not in self._sockets:
                await self._open(next(iter(scopes)), name)
            opened = self._sockets.get(name)
            for scope in scopes:
                if opened and scope != opened.scope:
                    _warn(scope, name, "another machine has the same name")

    async def _open(self, scope: str, name: str) -> None:
        if "/" in name:
            _warn(scope, name, "its name contains a slash")
            return
        path = self._path(name)
        try:
            listening = open_unix(path)
        except FairwarningError as error:
            _warn(scope, name, error.message)
            return
        try:
            listener = await self._server.listen(listening, for_machine(scope, name))
        except BaseException:
            listening.close()
            path.unlink(missing_ok=True)
            raise
        inode = path.stat().st_ino
        self._sockets[name] = _MachineSocket(scope=scope, listener=listener, inode=inode)

    def _close(self, name: str) -> None:
        closed = self._sockets.pop(name)
        self._server.close(closed.listener)
        self._remove_file(name, closed)

    def _remove_file(self, name: str, closed: _MachineSocket) -> None:
        """Remove the file of a socket, unless another process has replaced it."""
        path = self._path(name)
        with suppress(FileNotFoundError):
            if path.stat().st_ino == closed.inode:
                path.unlink()

    def _remove_abandoned(self) -> None:
        """Remove sockets that a killed process has left behind, for machines that are gone."""
        for path in self._folder.glob("*.sock"):
            if path.stem not in self._scopes and path.is_socket() and _refuses(path):
                path.unlink(missing_ok=True)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.sock"

    def remove_files(self) -> None:
        """Remove all sockets from the folder; the process is about to end."""
        for name, opened in tuple(self._sockets.items()):
            self._remove_file(name, opened)

    def close_all(self) -> None:
        """Close and remove all sockets, and open no more."""
        if self._follow in self._fleet.followers:
            self._fleet.followers.remove(self._follow)
        for task in self._tasks:
            task.cancel()
        for name in list(self._sockets):
            self._close(name)


def _warn(scope: str, machine: str, reason: str) -> None:
    log.warning("no socket for machine %s/%s: %s", scope, machine, reason)


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
