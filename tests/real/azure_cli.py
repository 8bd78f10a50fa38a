"""The real service with a virtual clock, and the real Azure CLI as its client."""

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
"""The options of a new machine in Azure's documentation."""

Event = dict[str, Any]


class AzureCliService(ServiceProcess):
    """A service with a virtual clock, with methods for Azure CLI users and for machines."""

    def __init__(self, data: Path, *, fleet: str = "", arm: str = FREE) -> None:
        super().__init__(data, "--clock", "virtual", fleet=fleet, arm=arm)
        self._commands = ExitStack()

    def __exit__(self, *error: object) -> None:
        self._commands.close()
        super().__exit__(*error)

    # --- Users of the Azure CLI ---

    def az(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end, whatever its exit code."""
        return self.run("az", *words)

    def az_json(self, *words: str) -> Any:  # noqa: ANN401  (its output)
        """Run a command that must succeed, and return its JSON output."""
        done = self.az(*words)
        assert done.returncode == 0, (words, done.stderr)
        return json.loads(done.stdout) if done.stdout.strip() else None

    def az_error(self, *words: str) -> str:
        """Run a command that must fail, and return the first line of its error."""
        done = self.az(*words)
        assert done.returncode == 1, (words, done.stdout)
        assert "Traceback" not in done.stderr
        return done.stderr.splitlines()[0]

    def start_az(self, *words: str) -> BackgroundCommand:
        """Start a command that waits for its operation."""
        return self._commands.enter_context(self.start_command("az", *words))

    def path(self, resource: str) -> str:
        """Return the path of a compute resource of the group, for `az rest`."""
        group = f"/subscriptions/{self.ready['subscription']}/resourceGroups/{GROUP}"
        return f"{group}/providers/Microsoft.Compute/{resource}"

    # --- Machines at the metadata endpoint ---

    def machines(self) -> dict[str, dict[str, Any]]:
        """Return all machines, by name."""
        listed = self.ok("GET", "/api/machines")["machines"]
        return {machine["name"]: machine for machine in listed}

    def events(self, machine: str) -> list[Event]:
        """Return the events that a machine sees."""
        events: list[Event] = self.poll(machine)["Events"]
        return events

    def wait_for_event(self, machine: str, kind: str) -> Event:
        """Wait until a machine sees an event of this kind, and return the event."""

        def matching() -> list[Event]:
            return [event for event in self.events(machine) if event["EventType"] == kind]

        (event,) = wait_until(matching, f"{kind} at {machine}")
        return event

    # --- Time ---

    def notice(self, event: Event) -> float:
        """Return the seconds until an event's NotBefore; the virtual clock is frozen."""
        now = datetime.fromisoformat(self.ok("GET", "/api/clock")["now"])
        return (parsedate_to_datetime(event["NotBefore"]) - now).total_seconds()

    @contextmanager
    def time_running(self) -> Iterator[None]:
        """Run ten virtual minutes per second, for impacts that need no approval."""
        self.ok("POST", "/api/clock", {"rate": 600})
        yield
        self.ok("POST", "/api/clock", {"rate": 0})


def assert_succeeds(command: BackgroundCommand) -> None:
    """Wait for a command, and check that it succeeds."""
    code, _, errors = command.wait()
    assert code == 0, errors
