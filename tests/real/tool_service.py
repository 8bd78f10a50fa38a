"""The real service with a virtual clock, for tools of Azure's users, and what its machines see."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

from fairwarning.service.config.settings import TENANT
from tests.fixtures.credentials import arm_request
from tests.fixtures.http import Response
from tests.fixtures.programs import BackgroundProgram, run_program, start_program
from tests.fixtures.service import BackgroundCommand, ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

GROUP = "rg"
CLIENT = "tool"

Event = dict[str, Any]


class ToolService(ServiceProcess):
    """A service with a virtual clock, with methods for tools and for machines."""

    def __init__(self, data: Path, *words: str, **options: str) -> None:
        super().__init__(data, "--clock", "virtual", *words, **options)  # type: ignore[arg-type]

    def login_environment(self) -> dict[str, str]:
        """Return the environment of a tool: a service principal, its cloud and its CA."""
        secret = self.ok(
            "POST", "/api/tokens", {"name": CLIENT, "role": "operator", "use": "login"}
        )["token"]
        return {
            **os.environ,
            "ARM_ENDPOINT": self.ready["arm"],
            "AZURE_CLIENT_ID": CLIENT,
            "AZURE_CLIENT_SECRET": secret,
            "AZURE_TENANT_ID": TENANT,
            "AZURE_SUBSCRIPTION_ID": self.ready["subscription"],
            "REQUESTS_CA_BUNDLE": self.ready["ca"],
            "SSL_CERT_FILE": self.ready["ca"],
        }

    def arm(self, method: str, path: str, body: object = None) -> Any:  # noqa: ANN401  (JSON)
        """Send a plain request that must succeed; return its JSON, if any."""
        response = self.arm_response(method, path, body)
        assert response.status < 300, response.body
        return response.json if response.body else None

    def arm_response(self, method: str, path: str, body: object = None) -> Response:
        """Send a plain request for a resource of the subscription."""
        target = f"/subscriptions/{self.ready['subscription']}/{path}?api-version=2024-03-01"
        headers = {"Authorization": f"Bearer {self.ready['token']}"}
        return arm_request(self, method, target, headers, json.dumps(body))

    def create_group(self) -> None:
        """Create the resource group of the tests."""
        self.arm("PUT", f"resourceGroups/{GROUP}", {"location": "westus"})

    def run_with_notice(self, program: BackgroundProgram, machine: str, kind: str) -> str:
        """Approve the event that a program's request causes; return what the program printed.

        The program must wait for the approval, and succeed after it.
        """
        event = self.wait_for_event(machine, kind)
        assert (event["EventStatus"], event["EventSource"]) == ("Scheduled", "User")
        assert not program.has_ended, program.output
        self.approve(machine, event["EventId"])
        with self.time_running():
            code = program.process.wait(LIMIT_SECONDS)
        assert code == 0, program.output
        return program.output

    def check_program(self, folder: Path, env: Mapping[str, str], *program: str) -> Any:  # noqa: ANN401
        """Let a program create, restart, scale in and delete; return the JSON of its list.

        It takes the step as its last argument.
        """

        def run(step: str) -> Any:  # noqa: ANN401  (its JSON)
            done = run_program(*program, step, env=env)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        run("create")
        assert set(self.machines()) == {"vm", "web_0", "web_1"}
        assert self.events("vm") == self.events("web_0") == []
        with start_program(*program, "restart", folder=folder, env=env) as restart:
            self.run_with_notice(restart, "vm", "Reboot")
        with start_program(*program, "scale-in", folder=folder, env=env) as scale_in:
            self.run_with_notice(scale_in, "web_0", "Terminate")
        assert set(self.machines()) == {"vm", "web_0"}
        listed = run("list")
        with self.time_running():
            run("delete")
        assert self.machines() == {}
        return listed

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

    def wait_until_idle(self, machine: str) -> None:
        """Wait until a machine sees no events."""
        wait_until(lambda: not self.events(machine), f"no event at {machine}")

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


# --- The Azure CLI --------------------------------------------------------------------------------


NEW = ("--image", "UbuntuLTS", "--admin-username", "azureuser", "--generate-ssh-keys")
"""The options of a new machine in Azure's documentation."""
VM = ("--resource-group", GROUP, "--name", "vm")
FLEET = """
[cloud]
group = "rg"

[[machine]]
name = "vm"
"""


class AzureCliService(ToolService):
    """A service with a virtual clock, with methods for Azure CLI users."""

    def __init__(self, data: Path, **options: str) -> None:
        super().__init__(data, **options)
        self._commands = ExitStack()

    def __exit__(self, *error: object) -> None:
        self._commands.close()
        super().__exit__(*error)

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


def assert_succeeds(command: BackgroundCommand) -> None:
    """Wait for a command, and check that it succeeds."""
    code, _, errors = command.wait()
    assert code == 0, errors
