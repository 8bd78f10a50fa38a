"""The real program with a virtual clock, and the real Azure CLI that drives it."""

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from fairwarning.cli import client
from fairwarning.metadata.identity import loopback_address
from tests.cli.stage import LONGEST_SECONDS, PROGRAM, QUERY, Up

GROUP = "rg"
NEW = ("--image", "UbuntuLTS", "--admin-username", "azureuser", "--generate-ssh-keys")
"""What the documentation says of a new machine."""

_PAUSE_SECONDS = 0.05  # between two looks
_FREE = "127.0.0.1:0"

Found = TypeVar("Found")
Event = dict[str, Any]


def until(look: Callable[[], Found], what: str) -> Found:
    """What is found once there is something to be found; it must be soon."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, f"never happened: {what}"
        time.sleep(_PAUSE_SECONDS)
    return found


class Stage(Up):
    """A service that runs, with all that its users and its machines do."""

    def __init__(self, process: subprocess.Popen[str], data: Path, ready: dict[str, Any]) -> None:
        super().__init__(process, data, ready)
        self.begun: list[Waiting] = []

    # --- Users, by the Azure CLI ---

    def az(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command to its end, whatever comes of it."""
        return self.run("az", *words)

    def ask(self, *words: str) -> Any:  # noqa: ANN401  (what it prints)
        """A command that must succeed, and what it prints."""
        done = self.az(*words)
        assert done.returncode == 0, (words, done.stderr)
        return json.loads(done.stdout) if done.stdout.strip() else None

    def refused(self, *words: str) -> str:
        """A command that must fail, and what it says: a line for people to read."""
        done = self.az(*words)
        assert done.returncode == 1, (words, done.stdout)
        assert "Traceback" not in done.stderr
        return done.stderr.splitlines()[0]

    def begin(self, *words: str) -> "Waiting":
        """A command that waits for what it has begun."""
        waiting = Waiting(_start("az", "--data", str(self.data), *words))
        self.begun.append(waiting)
        return waiting

    def path(self, resource: str) -> str:
        """A compute resource of the group, as `az rest` takes it."""
        group = f"/subscriptions/{self.ready['subscription']}/resourceGroups/{GROUP}"
        return f"{group}/providers/Microsoft.Compute/{resource}"

    # --- Machines, by the metadata endpoint ---

    def machines(self) -> dict[str, dict[str, Any]]:
        """All there are, by name."""
        found = client.ask(self.data, "GET", "/api/machines")["machines"]
        return {one["name"]: one for one in found}

    def at(self, machine: str) -> str:
        """Where a machine asks. It is remembered, since a machine keeps its address for ever."""
        known: dict[str, str] = self.ready["machines"]
        if machine not in known:
            port = urlsplit(self.ready["metadata"]).port
            for name, one in self.machines().items():
                known[name] = f"http://{loopback_address(one['number'])}:{port}"
        return known[machine]

    def events(self, machine: str) -> list[Event]:
        """What a machine reads of what comes."""
        self.at(machine)
        events: list[Event] = self.poll(machine)["Events"]
        return events

    def status(self, machine: str) -> int:
        """Whether the endpoint knows a machine."""
        return self.get(self.at(machine), QUERY)[0]

    def announced(self, machine: str, kind: str) -> Event:
        """The one event of this kind that a machine reads, once it is there."""

        def look() -> list[Event]:
            return [event for event in self.events(machine) if event["EventType"] == kind]

        found = until(look, f"{kind} at {machine}")
        assert len(found) == 1, found
        return found[0]

    def approve(self, machine: str, event: Event) -> None:
        """A machine lets it happen."""
        where = urlsplit(self.at(machine))
        connection = HTTPConnection(where.hostname or "", where.port, timeout=LONGEST_SECONDS)
        body = json.dumps({"StartRequests": [{"EventId": event["EventId"]}]})
        try:
            connection.request("POST", QUERY, body, {"Metadata": "true"})
            assert connection.getresponse().status == 200
        finally:
            connection.close()

    # --- Time ---

    def advance(self, seconds: float) -> None:
        """Let so much virtual time pass."""
        client.ask(self.data, "POST", "/api/clock", {"advance": seconds})

    def notice(self, event: Event) -> float:
        """How many seconds are left until an event's NotBefore, while time stands still."""
        now = datetime.fromisoformat(client.ask(self.data, "GET", "/api/clock")["now"])
        return (parsedate_to_datetime(event["NotBefore"]) - now).total_seconds()

    @contextmanager
    def time_running(self) -> Iterator[None]:
        """Ten virtual minutes a second, for what happens without anybody's approval."""
        client.ask(self.data, "POST", "/api/clock", {"rate": 600})
        yield
        client.ask(self.data, "POST", "/api/clock", {"rate": 0})


class Waiting:
    """An Azure CLI that waits for the end of what it has begun."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def waits(self) -> bool:
        """Whether it does."""
        return self.process.poll() is None

    def done(self) -> None:
        """It ends, by itself and well."""
        _, said = self.process.communicate(timeout=LONGEST_SECONDS)
        assert self.process.returncode == 0, said

    def end(self) -> None:
        """Leave nothing behind."""
        self.process.kill()
        self.process.communicate()


@contextmanager
def stage(data: Path, *words: str, arm: str = _FREE) -> Iterator[Stage]:
    """`fairwarning up --json` with a virtual clock; the control plane where it is wanted."""
    where = ("--metadata", _FREE, "--console", _FREE, "--arm", arm)
    process = _start("up", "--json", "--data", str(data), "--clock", "virtual", *words, *where)
    it = Stage(process, data, {})
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        it.ready = json.loads(line)
        yield it
    finally:
        for waiting in (*it.begun, Waiting(process)):
            waiting.end()


def _start(*words: str) -> subprocess.Popen[str]:
    command = [*PROGRAM, *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
