"""Real agents of an availability set share an event: one approval once all are ready."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.campaigns import split
from tests.fixtures.waiting import on_this_machine
from tests.guest.agents import AgentEndpoint, AgentFolder, AgentProcess, agent_folders, one_machine
from tests.guest.double import Double

pytestmark = pytest.mark.spec("G5")

ALIVE = 1.5  # seconds without a heartbeat after which a machine is not alive


@dataclass
class AgentGroup:
    """An endpoint with three machines of one update domain, and their agents."""

    cloud: AgentEndpoint
    homes: list[AgentFolder]
    agents: list[AgentProcess]

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
def agent_group(folder: Path) -> Iterator[AgentGroup]:
    """Start the agents; their required hooks wait."""
    with AgentEndpoint() as cloud, ExitStack() as stack:
        cloud.make_enabled("db", 3)
        names = [f"db_{number}" for number in range(3)]
        homes = stack.enter_context(agent_folders(cloud, folder, *names))
        cloud.observe = lambda: [home.folder.name for home in homes if "drain" in home.ran()]
        for home in homes:
            home.usual_hooks(home.wait_script())
            home.lines = [f'group.folder = "{folder / "shared"}"']
        alive = on_this_machine(ALIVE)
        agents = [
            stack.enter_context(AgentProcess(home, alive=alive, look=alive / 10)) for home in homes
        ]
        for agent in agents:
            agent.wait_until(lambda a=agent: "watching" in a.output())  # type: ignore[misc]
        yield AgentGroup(cloud, homes, agents)


def test_one_approval_after_all_are_ready(tmp_path: Path) -> None:
    """The first of Resources approves, whichever machine is ready first."""
    with agent_group(tmp_path) as group:
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
        assert len(set(group.cloud.approvals)) == 1  # it may be sent again


@pytest.mark.parametrize(("killed", "leader"), split([(0, 1), (2, 0)], 1))
def test_a_machine_that_is_killed_is_waited_for(tmp_path: Path, killed: int, leader: int) -> None:
    """Until shortly before NotBefore; then the first of the others approves, and warns."""
    with agent_group(tmp_path) as group:
        event = group.cloud.freeze("db_0", "db_1", "db_2")
        order = [int(name.removeprefix("db_")) for name in event.resources]
        group.until_all("drain", "+")
        group.agents[order[killed]].kill()
        others = [number for number in order if number != order[killed]]
        for number in others:
            group.homes[number].release_hooks()
        agent, dead = group.agents[order[leader]], f"machine db_{order[killed]}"
        agent.wait_until(lambda: f": waiting for {dead}\n" in agent.output())
        assert group.cloud.approvals == []
        group.cloud.advance(event.not_before - group.cloud.clock.now() - 3)
        group.until_all("flush")
        assert [machine for machine, _ in group.cloud.approvals] == [f"db_{order[leader]}"]
        assert {f"db_{number}" for number in others} <= set(group.cloud.observed[0])
        warning = f"approving without word from {dead}, as NotBefore is near"
        assert warning in agent.output()


@pytest.mark.spec("G4")
def test_a_lost_approval_is_repeated_while_another_event_keeps_the_agent_busy(
    tmp_path: Path,
) -> None:
    """Messages about the group come all the time, and do not delay it."""
    with Double() as azure:
        home = AgentFolder(tmp_path / "home", azure.url)
        home.hook("drain", "scheduled", home.wait_script(), 'on = ["Freeze"]')
        home.lines = [f'group.folder = "{tmp_path / "shared"}"']
        azure.announce("vm-1", "vm-2", EventType="Freeze")
        lost = azure.announce("vm-1")["EventId"]
        with AgentProcess(home, alive=ALIVE, look=0.02, resend=0.1) as agent:
            agent.wait_until(lambda: azure.approved.count(lost) > 2)
            home.release_hooks()


def test_a_shared_folder_that_hangs(tmp_path: Path) -> None:
    """Hooks and events of a single machine go on; once repaired, the readiness is written."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "hangs").touch()
    with one_machine(tmp_path, 2) as (cloud, home), ExitStack() as stack:
        home.usual_hooks()
        home.lines = [f'group.folder = "{shared}"']
        agent = AgentProcess(home, alive=ALIVE, look=ALIVE / 10, hangs=str(shared))
        stack.enter_context(agent)
        agent.wait_until(lambda: "cannot query the group's members" in agent.output())
        cloud.freeze("db_0", "db_1")
        agent.wait_until(lambda: "drain" in home.ran())
        assert cloud.approvals == []
        cloud.finish("db")
        agent.wait_until(lambda: "back" in home.ran() and not home.steps())
        alone = cloud.restart("db_0")
        agent.wait_until(lambda: ("db_0", (alone.id,)) in cloud.approvals)
        assert agent.output().count("cannot query the group's members") == 1
        cloud.finish("db")
        event = cloud.freeze("db_0", "db_1")
        agent.wait_until(lambda: home.ran().count("drain") == 3)
        (shared / "hangs").unlink()
        agent.wait_until((shared / "events" / event.id.upper() / "db_0").exists)
        agent.wait_until(lambda: "can be queried again" in agent.output())
        assert agent.stop() < 5
        assert agent.process.returncode == 0
