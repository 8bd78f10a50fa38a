"""A Unix socket for each machine (M22): to be mounted into a container, or given to a guest."""

import asyncio
import logging
from pathlib import Path

from fairwarning.core.errors import FairwarningError
from fairwarning.core.model import Scope
from fairwarning.metadata.callers import Listener, for_machine
from fairwarning.metadata.listeners import open_unix
from fairwarning.metadata.server import MetadataServer
from fairwarning.service.fleet import Fleet

log = logging.getLogger(__name__)


class MachineSockets:
    """A folder that always holds the sockets of the machines there are, by their names."""

    def __init__(self, folder: Path, server: MetadataServer, fleet: Fleet) -> None:
        self._folder = folder
        self._server = server
        self._fleet = fleet
        self._doors: dict[str, tuple[str, Listener]] = {}  # by machine, with its scope
        self._tasks: set[asyncio.Task[None]] = set()

    async def open_all(self) -> None:
        """For the machines that are there already."""
        self._folder.mkdir(0o700, parents=True, exist_ok=True)
        last = 0
        while places := await self._fleet.reader.list_machines(last, 1000):
            for place in places:
                await self._open(place.scope, place.machine.name)
            last = places[-1].number
        self._fleet.followers.append(self._follow)

    def _follow(self, scope: str, state: Scope | None) -> None:
        """Machines may have come, or gone."""
        now = state.machines if state else {}
        for name, (where, _) in list(self._doors.items()):
            if where == scope and name not in now:
                self._close(name)
        for name in now:
            if name not in self._doors:
                task = asyncio.get_running_loop().create_task(self._open(scope, name))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)

    async def _open(self, scope: str, machine: str) -> None:
        if machine in self._doors or "/" in machine:
            log.warning("no socket for %s/%s: its name is taken, or has a slash", scope, machine)
            return
        try:
            listener = open_unix(self._folder / f"{machine}.sock")
        except FairwarningError as error:
            log.warning("no socket for %s/%s: %s", scope, machine, error.message)
            return
        self._doors[machine] = (
            scope,
            await self._server.listen(listener, for_machine(scope, machine)),
        )

    def _close(self, machine: str) -> None:
        _, door = self._doors.pop(machine)
        self._server.close(door)
        (self._folder / f"{machine}.sock").unlink(missing_ok=True)

    def close_all(self) -> None:
        """Leave the folder as it was."""
        for machine in list(self._doors):
            self._close(machine)
