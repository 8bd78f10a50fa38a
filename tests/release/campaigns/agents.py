"""Machines of the soak that run the agent: operators restart them, and their agents approve."""

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from tests.guest.agents import AgentFolder, AgentProcess
from tests.release.campaigns.machines import read_document


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
