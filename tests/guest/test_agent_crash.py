"""SIGKILL at every line of the journal: the next agent completes the work (G6, IG1 to IG5)."""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.campaigns import split
from tests.fixtures.waiting import wait_until
from tests.guest.agents import AgentEndpoint, AgentFolder, AgentProcess, agent_folders

pytestmark = [pytest.mark.spec("G4", "G5", "G6")]

# The lines of a whole event: seen, two hooks begun and done, approving, approved; seen, one hook
# begun and done; over, one hook begun and done, forgotten.
LINES = 14


class CrashingAgent:
    """An agent that is killed once, and its successor."""

    def __init__(self, home: AgentFolder, die: str) -> None:
        self.home = home
        self.die = die
        self.deaths = 0
        self._agent = AgentProcess(home, die=die)

    def restart_if_dead(self) -> None:
        code = self._agent.process.poll()
        if code is None:
            return
        assert (code, self.deaths) == (-9, 0), (self.die, self._agent.output())
        self.deaths += 1
        self._agent.__exit__(None, None, None)
        self._agent = AgentProcess(self.home)

    def stop(self) -> None:
        self._agent.__exit__(None, None, None)


def wait_for_all(agents: list[CrashingAgent], condition: Callable[[AgentFolder], bool]) -> None:
    """Wait for a condition on every machine, restarting agents that were killed."""

    def are_done() -> bool:
        for agent in agents:
            agent.restart_if_dead()
        return all(condition(agent.home) for agent in agents)

    wait_until(are_done, lambda: str({v.die: (v.home.log(), v.home.steps()) for v in agents}))


@pytest.mark.parametrize("when", split(["before", "after"], 1))
def test_an_agent_that_is_killed_at_any_line(tmp_path: Path, when: str) -> None:
    """Each hook runs, twice only if interrupted, for the same event; no approval is early.

    There are fourteen machines; the agent of each is killed at a different line.
    """
    with AgentEndpoint() as endpoint, ExitStack() as stack:
        names = [f"db{line}" for line in range(1, LINES + 1)]
        for name in names:
            endpoint.make_enabled(name)
        events = {f"{name}_0": endpoint.restart(f"{name}_0").id for name in names}
        homes = stack.enter_context(agent_folders(endpoint, tmp_path, *events))
        endpoint.observe = lambda: {home.folder.name: home.ran() for home in homes}
        for home in homes:
            home.usual_hooks()
        agents = [CrashingAgent(home, f"{when}:{line}") for line, home in enumerate(homes, 1)]
        for agent in agents:
            stack.callback(agent.stop)
        wait_for_all(agents, lambda home: "flush" in home.ran())
        for name in names:
            endpoint.finish(name)
        wait_for_all(agents, lambda home: "back" in home.ran() and not home.steps())
        assert [agent.deaths for agent in agents] == [1] * LINES
        for home in homes:
            check_hooks(home, events[home.folder.name])
        for (machine, approved), ran in zip(endpoint.approvals, endpoint.observed, strict=True):
            assert approved == (events[machine],)
            assert "drain" in ran[machine], "IG1"
        assert {machine for machine, _ in endpoint.approvals} == set(events)


def check_hooks(home: AgentFolder, event: str) -> None:
    """Check what one machine's hooks logged over both agents."""
    assert {line.split()[3] for line in home.log()} == {event}, "IG2"
    begun = Counter(home.ran("+"))
    # An optional hook does not delay approval: an event that starts at once may leave it no time.
    assert {"drain", "flush", "back"} <= set(begun) <= {"drain", "note", "flush", "back"}
    assert sum(begun.values()) <= 4 + 2, "only interrupted hooks run again"
    order = home.ran("+")
    assert order.index("back") > max(order.index("drain"), order.index("flush"))
