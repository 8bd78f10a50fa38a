"""The machines of the soak: they poll, approve most events, and check what they see.

Some of them run the agent: operators restart them, and their agents approve.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from fairwarning.guest.client import ScheduledEvents
from fairwarning.guest.events import Document, Event, read
from tests.fixtures.endpoint import POLL_TARGET, approval
from tests.fixtures.http import fetch
from tests.guest.agents import AgentFolder, AgentProcess

APPROVED = 0.7  # of the events; the others wait for their NotBefore
SDK_EVERY = 10  # each tenth machine uses the SDK, the others plain requests
_HEADERS = {"Metadata": "true"}


@dataclass
class SeenEvent:
    """What the machines know of an event."""

    scope: str
    to_approve: bool
    not_before: datetime | None = None
    approved: bool = False


class Machines:
    """The programs inside all machines. A machine that does not exist any more is left out."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._incarnations: dict[str, int] = {}  # by machine
        self._clients: dict[str, ScheduledEvents] = {}  # by URL
        self.events: dict[str, SeenEvent] = {}
        self.polls = 0
        self.approvals = 0

    def poll_all(self, machines: Iterable[dict[str, Any]], now: datetime) -> None:
        """Poll once as each machine of a listing, and approve some of its events."""
        for number, machine in enumerate(machines):
            self._poll(machine, now, with_sdk=number % SDK_EVERY == 0)

    def disconnect(self) -> None:
        """Close the connections of the SDK, before the service gets other addresses."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def _poll(self, machine: dict[str, Any], now: datetime, *, with_sdk: bool) -> None:
        name = machine["name"]
        document = self._client(machine).document() if with_sdk else read_document(machine)
        self.polls += 1
        assert document.incarnation >= self._incarnations.get(name, 0), f"{name}: an older document"
        self._incarnations[name] = document.incarnation
        for event in document.events:
            if self._is_to_approve(machine, event, now):
                self._approve(machine, event, with_sdk=with_sdk)

    def _client(self, machine: dict[str, Any]) -> ScheduledEvents:
        url = machine["url"]
        if url not in self._clients:
            self._clients[url] = ScheduledEvents(url, name=machine["name"], every=0)
        return self._clients[url]

    def _is_to_approve(self, machine: dict[str, Any], event: Event, now: datetime) -> bool:
        """Check an event of a document; return whether the machine approves it now."""
        name, scope = machine["name"], machine["scope"]
        if event.id not in self.events:
            self.events[event.id] = SeenEvent(scope, self._random.random() < APPROVED)
        seen = self.events[event.id]
        assert seen.scope == scope, f"{name}: {event.id} of {seen.scope} is visible in {scope}"
        if event.started:
            early = seen.not_before is not None and now < seen.not_before
            assert seen.approved or not early, f"{event.id} started before {seen.not_before}"
            return False
        assert event.not_before, f"{event.id} has no NotBefore"
        is_shorter = seen.not_before is not None and event.not_before < seen.not_before
        assert not is_shorter, f"{event.id}: shorter notice"
        seen.not_before = event.not_before
        return seen.to_approve and not seen.approved and event.concerns(name)

    def _approve(self, machine: dict[str, Any], event: Event, *, with_sdk: bool) -> None:
        if with_sdk:
            self._client(machine).approve(event, others=True)
        else:
            url = f"{machine['url']}{POLL_TARGET}"
            response = fetch(url, "POST", headers=_HEADERS, body=approval(event.id))
            assert response.status == 200, (machine["name"], response)
        self.events[event.id].approved = True
        self.approvals += 1


def read_document(machine: dict[str, Any]) -> Document:
    """Poll as a machine of a listing, with a plain request."""
    response = fetch(f"{machine['url']}{POLL_TARGET}", headers=_HEADERS)
    assert response.status == 200, (machine["name"], response)
    return read(response.body)


class Agents:
    """An agent for each of some machines."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._agents: dict[str, AgentProcess] = {}  # by machine
        self.drains = 0

    def start(self, machines: Iterable[dict[str, Any]]) -> None:
        """Start the agents; those that were running are killed, and leave their journals."""
        self.close()
        for machine in machines:
            name = machine["name"]
            home = AgentFolder(self._folder / name, machine["url"], name)
            home.usual_hooks()
            self._agents[name] = AgentProcess(home)

    def close(self) -> None:
        """Kill the agents."""
        for agent in self._agents.values():
            agent.__exit__()
        self._agents.clear()

    def wait(self, machines: Iterable[dict[str, Any]]) -> None:
        """Wait until the agents have prepared for every event that is scheduled now."""
        for machine in machines:
            agent = self._agents[machine["name"]]
            scheduled = [event.id for event in read_document(machine).events if not event.started]
            for event in scheduled:
                agent.wait_until(partial(_is_drained, agent.home, event))
        self.drains = sum(agent.home.ran().count("drain") for agent in self._agents.values())

    def stop(self) -> None:
        """Stop the agents and check that they did their work, and that nothing went wrong."""
        for name, agent in self._agents.items():
            agent.stop()
            assert agent.exit_code() == 0, (name, agent.output())
            assert "Traceback" not in agent.output(), (name, agent.output())
            assert agent.home.ran("+") == agent.home.ran("-"), (name, agent.home.log())
            assert {"drain", "flush", "back"} <= set(agent.home.ran()), (name, agent.home.log())


def _is_drained(home: AgentFolder, event: str) -> bool:
    return any(line.startswith(f"- drain scheduled {event} ") for line in home.log())
