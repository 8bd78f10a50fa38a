"""The real program with a virtual clock, and the real Azure CLI that drives it."""

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from tests.fixtures.service import FREE, BackgroundCommand, ServiceProcess
from tests.fixtures.waiting import wait_until

GROUP = "rg"
NEW = ("--image", "UbuntuLTS", "--admin-username", "azureuser", "--generate-ssh-keys")
"""What the documentation says of a new machine."""

Event = dict[str, Any]


class AzureCliService(ServiceProcess):
    """A service with a virtual clock, its users with the Azure CLI, and its machines."""

    def __init__(self, data: Path, *words: str, arm: str = FREE) -> None:
        super().__init__(data, "--clock", "virtual", *words, arm=arm)
        self._commands = ExitStack()

    def __exit__(self, *error: object) -> None:
        self._commands.close()
        super().__exit__(*error)

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

    def start_az(self, *words: str) -> BackgroundCommand:
        """A command that waits for the operation that it has begun."""
        return self._commands.enter_context(self.start_command("az", *words))

    def path(self, resource: str) -> str:
        """A compute resource of the group, as `az rest` takes it."""
        group = f"/subscriptions/{self.ready['subscription']}/resourceGroups/{GROUP}"
        return f"{group}/providers/Microsoft.Compute/{resource}"

    # --- Machines, by the metadata endpoint ---

    def machines(self) -> dict[str, dict[str, Any]]:
        """All there are, by name."""
        listed = self.ok("GET", "/api/machines")["machines"]
        return {machine["name"]: machine for machine in listed}

    def events(self, machine: str) -> list[Event]:
        """The events that a machine reads."""
        events: list[Event] = self.poll(machine)["Events"]
        return events

    def announced(self, machine: str, kind: str) -> Event:
        """The one event of this kind that a machine reads, once it is there."""

        def look() -> list[Event]:
            return [event for event in self.events(machine) if event["EventType"] == kind]

        (event,) = wait_until(look, f"{kind} at {machine}")
        return event

    # --- Time ---

    def notice(self, event: Event) -> float:
        """How many seconds are left until an event's NotBefore, while time stands still."""
        now = datetime.fromisoformat(self.ok("GET", "/api/clock")["now"])
        return (parsedate_to_datetime(event["NotBefore"]) - now).total_seconds()

    @contextmanager
    def time_running(self) -> Iterator[None]:
        """Ten virtual minutes a second, for what happens without an approval."""
        self.ok("POST", "/api/clock", {"rate": 600})
        yield
        self.ok("POST", "/api/clock", {"rate": 0})


def assert_succeeds(command: BackgroundCommand) -> None:
    """It ends by itself, and with success."""
    code, _, errors = command.wait()
    assert code == 0, errors
