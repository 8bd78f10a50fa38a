"""A service process for tests to kill: `python -m tests.crash.worker FILE`.

It reads a request per line from stdin and writes an answer per line to stdout, once the fleet has
acknowledged the request. Its driver logs its impacts in a file, so that it repeats none.
"""

import asyncio
import base64
import hashlib
import json
import os
import pickle
import sys
from pathlib import Path
from typing import Any

from fairwarning.core.commands import Command
from fairwarning.core.errors import FairwarningError, NotFound
from fairwarning.core.model import Impact, Operation, Scope
from fairwarning.machines.driver import Report
from fairwarning.service.clock import RealClock
from fairwarning.service.fleet import Fleet
from fairwarning.store.sqlite import SQLiteStore
from tests.crash import failpoints


class FileDriver:
    """Logs each impact on disk before it reports it, and executes none twice."""

    def __init__(self, path: Path) -> None:
        self.done = set(path.read_text().split()) if path.exists() else set()
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def carry_out(self, impact: Impact, report: Report) -> None:
        """Execute the impact, unless the file contains it."""
        if impact.id not in self.done:
            self.done.add(impact.id)
            os.write(self.file, f"{impact.id}\n".encode())
            os.fsync(self.file)
        asyncio.get_running_loop().call_soon(report, impact, "")


class Worker:
    """Answers requests concurrently."""

    def __init__(self, fleet: Fleet) -> None:
        self.fleet = fleet
        self.stop = asyncio.Event()

    async def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer, on which the caller relies from now on."""
        do = request["do"]
        if do == "submit":
            command: Command = pickle.loads(base64.b64decode(request["command"]))
            await self.fleet.submit(command)
            return {}
        if do == "poll":
            return await self._poll(request["scope"])
        if do == "operation":
            operation = await self.fleet.reader.read(Operation, request["operation"])
            return {"status": operation.status if operation else None}
        if do == "approved":
            entries = await self.fleet.store.journal(event=request["event"])
            return {"lines": [entry.line.fact.type for entry in entries]}
        assert do == "stop"
        self.stop.set()
        return {}

    async def _poll(self, scope: str) -> dict[str, Any]:
        try:
            published = await self.fleet.poll(scope)
        except NotFound:
            return {"incarnation": None}
        body = published.body("2020-07-01")
        state = published.scope
        assert isinstance(state, Scope)
        waiting = [event.id for event in state.events.values() if event.status == "Scheduled"]
        digest = hashlib.sha256(body).hexdigest()
        return {"incarnation": published.incarnation, "digest": digest, "events": waiting}

    async def serve(self, line: str) -> None:
        """Answer one request."""
        request = json.loads(line)
        try:
            answer = await self.answer(request)
        except FairwarningError as error:
            answer = {"refused": error.code}
        print(json.dumps({"n": request["n"], **answer}), flush=True)


async def main(path: str) -> None:
    """Serve until stopped or killed."""
    failpoints.arm_from_environment()
    data = Path(path)
    fleet = Fleet(SQLiteStore(data), RealClock(), FileDriver(data.with_suffix(".done")))
    await fleet.start()
    print(json.dumps({"n": 0}), flush=True)
    worker = Worker(fleet)
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks: set[asyncio.Task[None]] = set()
    while not worker.stop.is_set() and (line := await reader.readline()):
        task = asyncio.create_task(worker.serve(line.decode()))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    await fleet.stop()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
