"""The real service with a virtual clock, for tools of Azure's users, and what its machines see."""

import json
import os
import ssl
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPSConnection
from pathlib import Path
from typing import Any

from fairwarning.service.config.settings import TENANT
from tests.fixtures.http import Response, send
from tests.fixtures.programs import BackgroundProgram
from tests.fixtures.service import FREE, ServiceProcess
from tests.fixtures.waiting import LIMIT_SECONDS, wait_until

GROUP = "rg"
CLIENT = "tool"

Event = dict[str, Any]


class ToolService(ServiceProcess):
    """A service with a virtual clock, with methods for tools and for machines."""

    def __init__(self, data: Path, *, fleet: str = "", arm: str = FREE) -> None:
        super().__init__(data, "--clock", "virtual", fleet=fleet, arm=arm)

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
        host, _, port = self.ready["arm"].removeprefix("https://").partition(":")
        trust = ssl.create_default_context(cafile=self.ready["ca"])
        headers = {"Authorization": f"Bearer {self.ready['token']}"}
        with closing(HTTPSConnection(host, int(port or 443), context=trust)) as connection:
            return send(connection, method, target, headers, json.dumps(body))

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
