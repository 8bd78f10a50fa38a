"""AgentGroup real agents of an availability set share an event: one approval once all are ready."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fixtures.http import free_ports
from tests.guest.agents import AgentEndpoint, AgentFolder, AgentProcess, agent_folders

pytestmark = pytest.mark.spec("G5")

ALIVE = 1.5  # seconds without a heartbeat after which a machine is not alive
KINDS = pytest.mark.parametrize("kind", ["folder", "peers"])


@dataclass
class AgentGroup:
    """An endpoint with agent_group machines of one update domain, and their agents."""

    cloud: AgentEndpoint
    homes: list[AgentFolder]
    agents: list[AgentProcess]

    def drained(self) -> list[str]:
        """Return the machines whose required hook is done."""
        return [home.folder.name for home in self.homes if "drain" in home.ran()]

    def until_all(self, hook: str, sign: str = "-") -> None:
        """Wait for a hook on every machine whose agent runs."""
        for home, agent in zip(self.homes, self.agents, strict=True):
            if agent.process.poll() is None:
                agent.wait_until(lambda h=home: hook in h.ran(sign))  # type: ignore[misc]

    def leader(self) -> int:
        """Return the first resource of the current event."""
        (event,) = self.cloud.scope("db").events.values()
        return int(event.resources[0].removeprefix("db_"))


@contextmanager
def agent_group(
    folder: Path, kind: str, slow: str = "", looks: tuple[float, ...] = (ALIVE / 10,) * 3
) -> Iterator[AgentGroup]:
    """Start the agents; their hooks wait, or do something slow."""
    ports = free_ports(3)
    with AgentEndpoint() as cloud, ExitStack() as stack:
        cloud.make_enabled("db", 3)
        names = [f"db_{number}" for number in range(3)]
        homes = stack.enter_context(agent_folders(cloud, folder, *names))
        cloud.observe = lambda: [home.folder.name for home in homes if "drain" in home.ran()]
        for home, port in zip(homes, ports, strict=True):
            home.usual_hooks(slow or home.wait_script())
            home.lines = [f'listen = "127.0.0.1:{port}"']
            if kind == "folder":
                home.lines.append(f'group.folder = "{folder / "shared"}"')
            else:
                others = zip(names, ports, strict=True)
                peers = ", ".join(f'{name} = "http://127.0.0.1:{at}"' for name, at in others)
                home.lines.append(f"group.peers = {{ {peers} }}")
        agents = [
            stack.enter_context(AgentProcess(home, alive=ALIVE, look=look))
            for home, look in zip(homes, looks, strict=True)
        ]
        for agent in agents:
            agent.wait_until(lambda a=agent: "watching" in a.output())  # type: ignore[misc]
        yield AgentGroup(cloud, homes, agents)


@KINDS
def test_one_approval_after_all_are_ready(tmp_path: Path, kind: str) -> None:
    """The first of Resources approves, whichever machine is ready first."""
    with agent_group(tmp_path, kind) as group:
        group.cloud.freeze("db_0", "db_1", "db_2")
        leader = group.leader()
        group.until_all("drain", "+")
        for home in group.homes[::-1]:
            assert group.cloud.approvals == []
            home.release_hooks()
        group.until_all("flush")
        assert [machine for machine, _ in group.cloud.approvals] == [f"db_{leader}"]
        assert sorted(group.cloud.observed[0]) == ["db_0", "db_1", "db_2"]
        group.cloud.finish("db")
        group.until_all("back")
        assert len(group.cloud.approvals) == 1


@KINDS
def test_no_approval_while_a_machine_is_not_ready(tmp_path: Path, kind: str) -> None:
    """This holds even longer than a machine without a heartbeat counts as alive."""
    with agent_group(tmp_path, kind, slow=f"sleep {1.5 * ALIVE}") as group:
        group.cloud.freeze("db_0", "db_1", "db_2")
        group.until_all("flush")
        assert group.cloud.observed == [["db_0", "db_1", "db_2"]]


@KINDS
def test_a_leader_with_a_long_query_interval_is_alive(tmp_path: Path, kind: str) -> None:
    """A machine that reads the event first does not approve without the others."""
    with agent_group(tmp_path, kind, looks=(ALIVE / 2, 0.05, 0.05)) as group:
        group.cloud.freeze("db_0", "db_1", "db_2")
        assert group.leader() == 0
        group.homes[1].release_hooks()
        group.homes[2].release_hooks()
        for agent in group.agents[1:]:
            agent.wait_until(lambda a=agent: "drain" in a.home.ran())  # type: ignore[misc]
        group.homes[0].release_hooks()
        group.until_all("flush")
        assert group.cloud.observed == [["db_0", "db_1", "db_2"]]
        assert [machine for machine, _ in group.cloud.approvals] == ["db_0"]


@KINDS
def test_when_the_leader_is_killed_the_next_takes_over(tmp_path: Path, kind: str) -> None:
    """It approves before NotBefore, once the two remaining machines are ready."""
    with agent_group(tmp_path, kind) as group:
        event = group.cloud.freeze("db_0", "db_1", "db_2")
        order = [int(name.removeprefix("db_")) for name in event.resources]
        group.until_all("drain", "+")
        group.agents[order[0]].kill()
        for number in order[1:]:
            group.homes[number].release_hooks()
        group.until_all("flush")
        assert [machine for machine, _ in group.cloud.approvals] == [f"db_{order[1]}"]
        assert {f"db_{number}" for number in order[1:]} <= set(group.cloud.observed[0])
        assert group.cloud.clock.now() < event.not_before


@KINDS
def test_a_machine_that_is_killed_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    """The leader approves without it."""
    with agent_group(tmp_path, kind) as group:
        event = group.cloud.freeze("db_0", "db_1", "db_2")
        order = [int(name.removeprefix("db_")) for name in event.resources]
        group.until_all("drain", "+")
        group.agents[order[2]].kill()
        for number in order[:2]:
            group.homes[number].release_hooks()
        group.until_all("flush")
        assert [machine for machine, _ in group.cloud.approvals] == [f"db_{order[0]}"]


def test_an_event_of_a_single_machine_needs_no_group(tmp_path: Path) -> None:
    """There is no coordination: the other agents do not even run."""
    with agent_group(tmp_path, "folder") as group:
        for agent in group.agents[1:]:
            agent.kill()
        group.homes[0].release_hooks()
        group.cloud.restart("db_0")
        group.agents[0].wait_until(lambda: group.cloud.approvals)
        assert group.cloud.approvals[0][0] == "db_0"
        assert not list((tmp_path / "shared").glob("[0-9A-F]*"))
