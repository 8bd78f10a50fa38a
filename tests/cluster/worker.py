"""A real service process to be killed and paused: `python -m tests.cluster.worker [BUG]`.

It is a nursery: for each setting that comes as a line on standard input it forks a process (so that
a new one is there within milliseconds) and writes its number. They end with it. Each answers
requests on a socket of its own, a line each, once the fleet has acknowledged them.
"""

import asyncio
import base64
import json
import logging
import os
import pickle
import signal
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

from fairwarning.core.commands import Command
from fairwarning.core.errors import FairwarningError, NotFound, Unavailable
from fairwarning.service import failpoints
from fairwarning.service.clock import RealClock
from fairwarning.service.documents import PublishedScope
from fairwarning.service.fleet import Fleet
from fairwarning.store.postgres.store import PostgresStore
from tests.cluster.acts import FileDriver
from tests.cluster.plants import plant_code

VERSION = "2020-07-01"
LINE_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class Setting:
    """What a process needs to know."""

    name: str
    url: str
    folder: str  # where its socket and its log are, and the file of acts that all share
    lease_seconds: float = 3.0
    staleness_seconds: float = 30.0

    @property
    def socket(self) -> Path:
        """Where it answers."""
        return Path(self.folder) / f"{self.name}.sock"

    @property
    def log(self) -> Path:
        """What it had to say."""
        return Path(self.folder) / f"{self.name}.log"

    @property
    def acts(self) -> Path:
        """What was done to machines."""
        return Path(self.folder) / "acts"


class Worker:
    """Answers requests; each may take as long as it takes."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.known: dict[str, PublishedScope] = {}  # kept, as by machines that are connected
        self.tasks: set[asyncio.Task[None]] = set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Somebody asks, perhaps several things at once."""
        try:
            while line := await reader.readline():
                task = asyncio.create_task(self._serve(json.loads(line), writer))
                self.tasks.add(task)
                task.add_done_callback(self.tasks.discard)
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def _serve(self, request: dict[str, Any], writer: asyncio.StreamWriter) -> None:
        try:
            answer = await self._answer(request)
        except FairwarningError as error:
            answer = {"refused": error.code, "status": error.status}
        writer.write(json.dumps({"n": request["n"], **answer}).encode() + b"\n")

    async def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """What the caller may rely on from now on."""
        if text := request.get("submit"):
            command: Command = pickle.loads(base64.b64decode(text))
            await self.fleet.submit(command)
            return {}
        if scope := request.get("poll"):
            return await self._poll(scope)
        if scope := request.get("wait"):
            return await self._wait(scope, request["incarnation"])
        if place := request.get("arm"):
            failpoints.arm(partial(_strike, place, request["signal"]))
            return {}
        return {"broken": str(self.fleet.broken or "")}

    async def _wait(self, scope: str, incarnation: int) -> dict[str, Any]:
        """Answer once the document is past an incarnation, as a long poll does."""
        published = self.known[scope] = await self.fleet.poll(scope)
        while published.incarnation <= incarnation:
            changed = asyncio.Event()
            published.add_listener(changed.set)
            await changed.wait()
        return {"incarnation": published.incarnation}

    async def _poll(self, scope: str) -> dict[str, Any]:
        try:
            published = self.known[scope] = await self.fleet.poll(scope)
            # As the metadata endpoint does: refuse what may be too old, or is not on yet.
            if self.fleet.documents.is_stale() or not published.incarnation:
                raise Unavailable("NotReady", "what is known is too old; try again")
            body = published.body(VERSION)
        except NotFound:
            return {"version": None}
        assert published.scope
        return {"version": published.scope.version, "body": body.decode()}


def _strike(wanted: str, number: int, place: str) -> None:
    """Send ourselves a signal at a failpoint, once."""
    if place == wanted:
        failpoints.arm(None)
        os.kill(os.getpid(), number)


async def up(setting: Setting) -> Fleet:
    """A fleet that is up. If the database hangs up meanwhile, again, as a supervisor does it."""
    while True:
        store = PostgresStore(setting.url, lease_seconds=setting.lease_seconds)
        fleet = Fleet(store, RealClock(), FileDriver(setting.acts, setting.name))
        assert fleet.following
        fleet.following.staleness_seconds = setting.staleness_seconds
        try:
            await fleet.start()
        except Unavailable:
            await store.close()
        else:
            return fleet


async def serve(setting: Setting) -> None:
    """Serve until killed."""
    worker = Worker(await up(setting))
    part = setting.socket.with_suffix(".part")
    server = await asyncio.start_unix_server(worker.connected, part, limit=LINE_BYTES)
    part.rename(setting.socket)  # who finds it can connect
    await server.serve_forever()


def live(setting: Setting) -> None:
    """The life of one process."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(setting.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream, target in ((0, nothing), (1, nothing), (2, log)):
        os.dup2(target, stream)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    uvloop.run(serve(setting))


def main() -> None:
    """Fork as often as asked; end everybody at the end."""
    for name in sys.argv[1:]:
        plant_code(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead need no burial
    children = []
    for line in sys.stdin:
        child = os.fork()
        if not child:
            live(Setting(**json.loads(line)))
            os._exit(1)
        children.append(child)
        print(child, flush=True)
    for child in children:
        try:
            os.kill(child, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    main()
