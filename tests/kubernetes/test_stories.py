"""Real agents on a cluster where things fail: the node ends free, and the approval is right.

Each story runs on the double, and on a real API server if there is one.
"""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.guest.agents import AgentEndpoint, AgentFolder, AgentProcess, one_machine
from tests.kubernetes.clusters import StoryCluster, is_drained, is_free

RESTARTS = int(os.environ.get("FAIRWARNING_API_RESTARTS", "1"))
"""How often each story with a restart of the API server is told; 20 before a release."""
LOOK_SECONDS = 0.5
MODULE = "fairwarning.guest.agent.kubernetes"

pytestmark = pytest.mark.spec("G9")


@dataclass
class Story:
    """A machine `db_0` that is the node `node-1` of a cluster, with a pod."""

    cluster: StoryCluster
    endpoint: AgentEndpoint
    home: AgentFolder

    @contextmanager
    def agent(self) -> Iterator[AgentProcess]:
        """Run the machine's agent."""
        with AgentProcess(self.home, node=LOOK_SECONDS) as agent:
            yield agent

    def output(self) -> str:
        """Return the output of all agents so far."""
        return (self.home.folder / "output").read_text("utf-8", "replace")


@pytest.fixture
def story(
    cluster: StoryCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Story]:
    """The drain of the pod waits for its budget."""
    cluster.node("node-1", "db_0")
    cluster.pod("web", "node-1", owner="ReplicaSet")
    cluster.set_budget("web", 0)
    monkeypatch.setenv("NODE_NAME", "node-1")
    monkeypatch.setenv("KUBECONFIG", str(cluster.config("node-1")))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with one_machine(tmp_path / "machine") as (endpoint, home):
        for name, phase in (("drain", "scheduled"), ("uncordon", "over")):
            home.hooks.append(
                f'[[hook]]\nname = "{name}"\nphase = "{phase}"\ncall = "{MODULE}:{name}"\n'
                "timeout_seconds = 300\n"
            )
        yield Story(cluster, endpoint, home)


def test_a_drain_from_its_notice_to_its_end(story: Story) -> None:
    """Without any failure: approved once the pod is gone, free once the event is over."""
    with story.agent() as agent:
        story.endpoint.restart("db_0")
        agent.wait_until(lambda: is_drained(story.cluster, "node-1"))
        assert story.endpoint.approvals == []
        story.cluster.set_budget("web", 1)
        agent.wait_until(lambda: story.endpoint.approvals)
        assert story.cluster.pods("node-1") == []
        story.endpoint.finish("db")
        agent.wait_until(lambda: is_free(story.cluster, "node-1"))
    assert len(set(story.endpoint.approvals)) == 1  # it may be sent again


@pytest.mark.parametrize("number", range(RESTARTS))
def test_the_api_server_restarts_during_a_drain(story: Story, number: int) -> None:
    """At a different moment each time; the drain goes on."""
    with story.agent() as agent:
        story.endpoint.restart("db_0")
        if number % 2:
            agent.wait_until(lambda: is_drained(story.cluster, "node-1"))
        story.cluster.set_budget("web", 1)
        story.cluster.stop()
        threading.Event().wait(0.3 + number % 5 * 0.5)
        story.cluster.start()
        agent.wait_until(lambda: story.endpoint.approvals)
        assert story.cluster.pods("node-1") == []
        story.endpoint.finish("db")
        agent.wait_until(lambda: is_free(story.cluster, "node-1"))
    assert len(set(story.endpoint.approvals)) == 1  # it may be sent again


@pytest.mark.parametrize("number", range(RESTARTS))
def test_the_api_server_restarts_during_an_uncordon(story: Story, number: int) -> None:
    """The event ends while it is away."""
    story.cluster.set_budget("web", 1)
    with story.agent() as agent:
        story.endpoint.restart("db_0")
        agent.wait_until(lambda: story.endpoint.approvals)
        story.cluster.stop()
        story.endpoint.finish("db")
        threading.Event().wait(0.3 + number % 5 * 0.5)
        story.cluster.start()
        agent.wait_until(lambda: is_free(story.cluster, "node-1"))
    assert len(set(story.endpoint.approvals)) == 1  # it may be sent again


def test_the_state_folder_is_deleted(story: Story) -> None:
    """The agent is killed during a drain and its journal is lost; the event ends meanwhile."""
    with story.agent() as agent:
        event = story.endpoint.restart("db_0")
        agent.wait_until(lambda: is_drained(story.cluster, "node-1"))
        agent.kill()
    shutil.rmtree(story.home.state)
    story.endpoint.approve("db_0", event.id)
    story.endpoint.finish("db")
    with story.agent() as agent:
        agent.wait_until(lambda: is_free(story.cluster, "node-1"))


def test_the_uncordon_hook_is_missing(story: Story) -> None:
    """The configuration forgot it; the node is freed all the same."""
    story.home.hooks.pop()
    story.cluster.set_budget("web", 1)
    with story.agent() as agent:
        story.endpoint.restart("db_0")
        agent.wait_until(lambda: story.endpoint.approvals)
        story.endpoint.finish("db")
        agent.wait_until(lambda: is_free(story.cluster, "node-1"))


def test_the_role_is_removed_and_given_back(story: Story) -> None:
    """During a drain; the agent needs no restart."""
    with story.agent() as agent:
        story.endpoint.restart("db_0")
        agent.wait_until(lambda: is_drained(story.cluster, "node-1"))
        story.cluster.revoke()
        story.cluster.set_budget("web", 1)
        agent.wait_until(lambda: "the agent lacks the right to" in story.output())
        assert story.endpoint.approvals == []
        story.cluster.grant()
        agent.wait_until(lambda: story.endpoint.approvals)
        story.endpoint.finish("db")
        agent.wait_until(lambda: is_free(story.cluster, "node-1"))
    assert len(set(story.endpoint.approvals)) == 1  # it may be sent again


def test_the_role_was_never_there(story: Story) -> None:
    """The drain fails at its deadline with the missing right; nothing is approved or cordoned."""
    story.cluster.revoke()
    story.home.hooks[0] = story.home.hooks[0].replace("= 300", "= 10")
    with story.agent() as agent:
        story.endpoint.restart("db_0")
        agent.wait_until(lambda: "done" in story.home.steps())
        (failed,) = [entry.failed for entry in story.home.journal() if entry.step == "done"]
        assert "lacks the right to" in failed
        assert story.endpoint.approvals == []
        story.endpoint.advance(15 * 60 + 2)
        story.endpoint.finish("db")
        story.cluster.grant()
        agent.wait_until(lambda: not story.home.steps())
    assert is_free(story.cluster, "node-1")
    assert story.endpoint.approvals == []
    assert "web" in story.cluster.pods("node-1")


def test_pods_that_come_back(story: Story) -> None:
    """Their controller ignores the cordon; they are evicted once, and the event is approved."""
    story.cluster.set_budget("web", 100)
    ended = threading.Event()
    created: list[str] = []

    def bring_back() -> None:
        while not ended.wait(0.05):
            if not story.cluster.pods("node-1", staying=True):
                created.append(f"web-{len(created)}")
                story.cluster.pod(created[-1], "node-1", owner="ReplicaSet")

    controller = threading.Thread(target=bring_back)
    controller.start()
    try:
        with story.agent() as agent:
            story.endpoint.restart("db_0")
            agent.wait_until(lambda: story.endpoint.approvals)
            assert len(created) == 2
            assert story.cluster.pods("node-1") == created[-1:]
            story.endpoint.finish("db")
            agent.wait_until(lambda: is_free(story.cluster, "node-1"))
    finally:
        ended.set()
        controller.join()
