"""A Unix socket for each machine (M22), to mount into a container or a guest."""

import asyncio
import logging
from pathlib import Path

from fairwarning.core.errors import FairwarningError
from fairwarning.core.model import Scope
from fairwarning.metadata.accepting import Listener
from fairwarning.metadata.callers import for_machine
from fairwarning.metadata.listeners import open_unix
from fairwarning.metadata.server import MetadataServer
from fairwarning.service.fleet import Fleet

log = logging.getLogger(__name__)


class MachineSockets:
    """Keeps one socket per machine in a folder, named after the machine."""

    def __init__(self, folder: Path, server: MetadataServer, fleet: Fleet) -> None:
        self._folder = folder
        self._server = server
        self._fleet = fleet
        self._listeners: dict[str, tuple[str, Listener]] = {}  # scope and listener by machine
        self._tasks: set[asyncio.Task[None]] = set()

    async def open_all(self) -> None:
        """Open the sockets of existing machines, and follow changes."""
        self._folder.mkdir(0o700, parents=True, exist_ok=True)
        last = 0
        while locations := await self._fleet.reader.list_machines(last, 1000):
            for location in locations:
                await self._open(location.scope, location.machine.name)
            last = locations[-1].number
        self._fleet.followers.append(self._follow)

    def _follow(self, scope: str, state: Scope | None) -> None:
        """Open sockets for new machines of a scope, and close those of removed ones."""
        machines = state.machines if state else {}
        for name, (listener_scope, _) in list(self._listeners.items()):
            if listener_scope == scope and name not in machines:
                self._close(name)
        for name in machines:
            if name not in self._listeners:
                task = asyncio.get_running_loop().create_task(self._open(scope, name))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _open(self, scope: str, machine: str) -> None:
        if machine in self._listeners or "/" in machine:
            log.warning(
                "no socket for machine %s/%s: its name contains a slash, or another machine has"
                " the same name",
                scope,
                machine,
            )
            return
        try:
            listening = open_unix(self._folder / f"{machine}.sock")
        except FairwarningError as error:
            log.warning("no socket for machine %s/%s: %s", scope, machine, error.message)
            return
        try:
            listener = await self._server.listen(listening, for_machine(scope, machine))
        except BaseException:
            listening.close()
            (self._folder / f"{machine}.sock").unlink(missing_ok=True)
            raise
        self._listeners[machine] = (scope, listener)

    def _close(self, machine: str) -> None:
        _, listener = self._listeners.pop(machine)
        self._server.close(listener)
        (self._folder / f"{machine}.sock").unlink(missing_ok=True)

    def remove_files(self) -> None:
        """Remove all sockets from the folder; the process is about to end."""
        for machine in tuple(self._listeners):
            (self._folder / f"{machine}.sock").unlink(missing_ok=True)

    def close_all(self) -> None:
        """Close and remove all sockets, and open no more."""
        if self._follow in self._fleet.followers:
            self._fleet.followers.remove(self._follow)
        for task in self._tasks:
            task.cancel()
        for machine in list(self._listeners):
            self._close(machine)
