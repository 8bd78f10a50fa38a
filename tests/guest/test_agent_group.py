"""Three real agents of one availability set share an event: one approval, after all are ready."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fixtures.http import free_ports
from tests.guest.agents import AgentEndpoint, AgentFolder, AgentProcess, agent_folders

pytestmark = pytest.mark.spec("G5")

ALIVE = 1.5  # seconds after which a silent machine of these tests is not
KINDS = pytest.mark.parametrize("kind", ["folder", "peers"])


@dataclass
class Three:
    """A cloud with three machines of one update domain, and their agents."""

    cloud: AgentEndpoint
    homes: list[AgentFolder]
    agents: list[AgentProcess]

    def drained(self) -> list[str]:
        """Machines whose required hook is done."""
        return [home.folder.name for home in self.homes if "drain" in home.ran()]

    def until_all(self, hook: str, sign: str = "-") -> None:
        """Wait for a hook of every machine whose agent lives."""
        for home, agent in zip(self.homes, self.agents, strict=True):
            if agent.process.poll() is None:
                agent.wait_until(lambda h=home: hook in h.ran(sign))  # type: ignore[misc]

    def leader(self) -> int:
        """Who stands first in the event that is there."""
        (event,) = self.cloud.scope("db").events.values()
        return int(event.resources[0].removeprefix("db_"))


@contextmanager
def three(
    folder: Path, kind: str, slow: str = "", looks: tuple[float, ...] = (ALIVE / 10,) * 3
) -> Iterator[Three]:
    """Agents that run, and hooks that wait at their gates (or do something slow)."""
    ports = free_ports(3)
    with AgentEndpoint() as cloud, ExitStack() as stack:
        cloud.make_enabled("db", 3)
        names = [f"db_{number}" for number in range(3)]
        made = stack.enter_context(agent_folders(cloud, folder, *names))
        cloud.observe = lambda: [home.folder.name for home in made if "drain" in home.ran()]
        for home, port in zip(made, ports, strict=True):
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
            for home, look in zip(made, looks, strict=True)
        ]
        for agent in agents:
            agent.wait_until(lambda a=agent: "watching" in a.said())  # type: ignore[misc]
        yield Three(cloud, made, agents)


@KINDS
def test_one_approval_after_all_are_ready(tmp_path: Path, kind: str) -> None:
    """By the first of Resources, whoever is ready first."""
    with three(tmp_path, kind) as it:
        it.cloud.freeze("db_0", "db_1", "db_2")
        leader = it.leader()
        it.until_all("drain", "+")
        for home in it.homes[::-1]:
            assert it.cloud.approvals == []
            home.release_hooks()
        it.until_all("flush")
        assert [who for who, _ in it.cloud.approvals] == [f"db_{leader}"]
        assert sorted(it.cloud.observed[0]) == ["db_0", "db_1", "db_2"]
        it.cloud.finish("db")
        it.until_all("back")
        assert len(it.cloud.approvals) == 1


@KINDS
def test_nobody_approves_while_one_is_not_ready(tmp_path: Path, kind: str) -> None:
    """Though it takes longer than a silent machine would count as alive."""
    with three(tmp_path, kind, slow=f"sleep {1.5 * ALIVE}") as it:
        it.cloud.freeze("db_0", "db_1", "db_2")
        it.until_all("flush")
        assert it.cloud.observed == [["db_0", "db_1", "db_2"]]


@KINDS
def test_a_leader_who_looks_seldom_is_alive_all_the_same(tmp_path: Path, kind: str) -> None:
    """Whoever comes to hear of the event first does not go ahead without the others."""
    with three(tmp_path, kind, looks=(ALIVE / 2, 0.05, 0.05)) as it:
        it.cloud.freeze("db_0", "db_1", "db_2")
        assert it.leader() == 0
        it.homes[1].release_hooks()
        it.homes[2].release_hooks()
        for agent in it.agents[1:]:
            agent.wait_until(lambda a=agent: "drain" in a.home.ran())  # type: ignore[misc]
        it.homes[0].release_hooks()
        it.until_all("flush")
        assert it.cloud.observed == [["db_0", "db_1", "db_2"]]
        assert [who for who, _ in it.cloud.approvals] == ["db_0"]


@KINDS
def test_when_the_leader_is_killed_the_next_takes_over(tmp_path: Path, kind: str) -> None:
    """Before NotBefore, and once the two that are left are ready."""
    with three(tmp_path, kind) as it:
        event = it.cloud.freeze("db_0", "db_1", "db_2")
        order = [int(name.removeprefix("db_")) for name in event.resources]
        it.until_all("drain", "+")
        it.agents[order[0]].kill()
        for number in order[1:]:
            it.homes[number].release_hooks()
        it.until_all("flush")
        assert [who for who, _ in it.cloud.approvals] == [f"db_{order[1]}"]
        assert {f"db_{number}" for number in order[1:]} <= set(it.cloud.observed[0])
        assert it.cloud.clock.now() < event.not_before


@KINDS
def test_a_machine_that_is_killed_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    """The leader goes on without it."""
    with three(tmp_path, kind) as it:
        event = it.cloud.freeze("db_0", "db_1", "db_2")
        order = [int(name.removeprefix("db_")) for name in event.resources]
        it.until_all("drain", "+")
        it.agents[order[2]].kill()
        for number in order[:2]:
            it.homes[number].release_hooks()
        it.until_all("flush")
        assert [who for who, _ in it.cloud.approvals] == [f"db_{order[0]}"]


def test_an_event_of_one_of_them_is_its_own_affair(tmp_path: Path) -> None:
    """No coordination: the others are not even there."""
    with three(tmp_path, "folder") as it:
        for agent in it.agents[1:]:
            agent.kill()
        it.homes[0].release_hooks()
        it.cloud.restart("db_0")
        it.agents[0].wait_until(lambda: it.cloud.approvals)
        assert it.cloud.approvals[0][0] == "db_0"
        assert not list((tmp_path / "shared").glob("[0-9A-F]*"))
