"""A service process for tests to kill and pause: `python -m tests.cluster.worker [BUG]`.

It is a fork server: for each settings object on a line of stdin it forks a process, which takes
milliseconds, and writes its pid. The processes end with it. Each answers requests on its own
socket, one per line, once the fleet has acknowledged them.
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
from fairwarning.service.webhooks.targets import AllowedTargets
from fairwarning.service.webhooks.webhooks import WebhookService
from fairwarning.service.writer import committer
from fairwarning.store.postgres.connections import shut_down
from fairwarning.store.postgres.store import PostgresStore
from fairwarning.store.sqlite import SQLiteStore
from fairwarning.store.store import Store
from tests.cluster.action_log import FileDriver
from tests.cluster.plants import PLANTS
from tests.crash.failpoints import kill_at

VERSION = "2020-07-01"
LINE_BYTES = 2**20
RETRY_SECONDS = 0.05  # between two attempts to start


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of a worker process."""

    name: str
    url: str  # of the database; or the path of an SQLite file
    folder: str  # of its socket and its log, and of the action log that all share
    lease_seconds: float = 3.0
    staleness_seconds: float = 30.0
    transaction_rows: int = 0  # at most; 0 for the default
    failpoint: str = ""  # where to kill the process, and at which time: "ack.after:5"
    impacts_fail: bool = True  # some of them

    @property
    def socket(self) -> Path:
        """The socket on which it answers."""
        return Path(self.folder) / f"{self.name}.sock"

    @property
    def log(self) -> Path:
        """The log of the process."""
        return Path(self.folder) / f"{self.name}.log"

    @property
    def action_log(self) -> Path:
        """The log of actions on machines."""
        return Path(self.folder) / "actions"


class Worker:
    """Answers requests concurrently."""

    def __init__(self, fleet: Fleet, webhooks: WebhookService) -> None:
        self.fleet = fleet
        self.webhooks = webhooks
        self.known: dict[str, PublishedScope] = {}  # held, as by machines that are connected
        self.tasks: set[asyncio.Task[None]] = set()

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection, which may send several requests at once."""
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
        """Return the answer, on which the caller relies from now on."""
        if text := request.get("submit"):
            command: Command = pickle.loads(base64.b64decode(text))
            await self.fleet.submit(command)
            return {}
        if scope := request.get("poll"):
            return await self._poll(scope)
        if scope := request.get("wait"):
            return await self._wait(scope, request["incarnation"])
        if request.get("hook"):
            await self._change_webhook(request)
            return {}
        if failpoint := request.get("arm"):
            failpoints.arm(partial(_signal_self, failpoint, request["signal"]))
            return {}
        if request.get("cut"):  # the database goes on with the statements of what is in use
            assert isinstance(self.fleet.store, PostgresStore)
            for connection in self.fleet.store._connections._used:
                shut_down(connection)
            return {}
        if request.get("stop"):
            await self.webhooks.stop()
            await self.fleet.stop()
            return {}
        return {"broken": str(self.fleet.broken or "")}

    async def _change_webhook(self, request: dict[str, Any]) -> None:
        name, actor = request["name"], request.get("actor", "operator")
        if request["hook"] == "create":
            url, secret = request["url"], request["secret"]
            await self.webhooks.create(name, url, secret=secret, actor=actor)
        elif request["hook"] == "remove":
            await self.webhooks.remove(name)
        else:
            await self.webhooks.test(name)

    async def _wait(self, scope: str, incarnation: int) -> dict[str, Any]:
        """Answer once the document is newer than an incarnation, as a long poll does."""
        published = self.known[scope] = await self.fleet.poll(scope)
        while published.incarnation <= incarnation:
            changed = asyncio.Event()
            published.add_listener(changed.set)
            await changed.wait()
        return {"incarnation": published.incarnation}

    async def _poll(self, scope: str) -> dict[str, Any]:
        try:
            published = self.known[scope] = await self.fleet.poll(scope)
            # As the metadata endpoint does: refuse a document that is stale or not enabled.
            if self.fleet.documents.is_stale() or not published.incarnation:
                raise Unavailable("NotReady", "the document may be stale; try again")
            body = published.body(VERSION)
        except NotFound:
            return {"version": None}
        assert published.scope
        return {"version": published.scope.version, "body": body.decode()}


def _signal_self(failpoint: str, number: int, reached: str) -> None:
    """Send ourselves a signal at a failpoint, once."""
    if reached == failpoint:
        failpoints.arm(None)
        os.kill(os.getpid(), number)


async def start_fleet(settings: WorkerSettings) -> Fleet:
    """Start a fleet; try again if the database disconnects meanwhile, as a supervisor would."""
    while True:
        store: Store = (
            PostgresStore(settings.url, lease_seconds=settings.lease_seconds)
            if "://" in settings.url
            else SQLiteStore(settings.url)
        )
        driver = FileDriver(settings.action_log, settings.name, fails=settings.impacts_fail)
        fleet = Fleet(store, RealClock(), driver)
        if fleet.following:
            fleet.following.staleness_seconds = settings.staleness_seconds
        try:
            await fleet.start()
        except Unavailable:
            await store.close()
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return fleet


async def start_webhooks(fleet: Fleet) -> WebhookService:
    """Start webhooks; try again if the database disconnects meanwhile."""
    while True:
        webhooks = WebhookService(fleet, AllowedTargets(("127.0.0.1",)))
        try:
            await webhooks.start()
        except Unavailable:
            await webhooks.stop()
            # A database that is known to be away refuses at once: let the fleet connect again.
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return webhooks


async def serve(settings: WorkerSettings) -> None:
    """Serve until killed."""
    fleet = await start_fleet(settings)
    worker = Worker(fleet, await start_webhooks(fleet))
    part = settings.socket.with_suffix(".part")
    server = await asyncio.start_unix_server(worker.connected, part, limit=LINE_BYTES)
    part.rename(settings.socket)  # once it exists, it accepts connections
    await server.serve_forever()


def run(settings: WorkerSettings) -> None:
    """Run one worker process."""
    kill_at(settings.failpoint)
    committer._ROWS = settings.transaction_rows or committer._ROWS
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(settings.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDWR)
    for stream, target in ((0, null), (1, null), (2, log)):
        os.dup2(target, stream)
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    uvloop.run(serve(settings))


def main() -> None:
    """Fork as often as requested; kill all processes at the end."""
    for name in sys.argv[1:]:
        if code := PLANTS[name].code:
            code()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the processes
    children = []
    for line in sys.stdin:
        child = os.fork()
        if not child:
            run(WorkerSettings(**json.loads(line)))
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
