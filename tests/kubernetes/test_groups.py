"""Real agents of nodes that share an event: one approval, and nodes without labels afterwards."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fixtures.waiting import wait_until
from tests.guest.agents import AgentEndpoint, AgentFolder, AgentProcess, agent_folders
from tests.kubernetes.clusters import AgentCluster, is_free

pytestmark = pytest.mark.spec("G5", "G9")

NAMES = ("db_0", "db_1", "db_2")


@dataclass
class NodeGroup:
    """Three machines that are nodes, and their agents."""

    endpoint: AgentEndpoint
    homes: list[AgentFolder]

    def until_all(self, hook: str, sign: str = "-") -> None:
        """Wait for a hook on every machine."""
        wait_until(
            lambda: all(hook in home.ran(sign) for home in self.homes),
            lambda: "".join((home.folder / "output").read_text("utf-8") for home in self.homes),
        )


@contextmanager
def node_group(cluster: AgentCluster, folder: Path, drains: dict[str, str]) -> Iterator[NodeGroup]:
    """Start the agents; each has its own node, and its own script to drain."""
    with AgentEndpoint() as endpoint, ExitStack() as stack:
        endpoint.make_enabled("db", len(NAMES))
        homes = stack.enter_context(agent_folders(endpoint, folder / "machines", *NAMES))
        for name, home in zip(NAMES, homes, strict=True):
            cluster.node(f"node-{name[-1]}", name)
            home.usual_hooks(drains.get(name) or home.wait_script())
            home.lines = ["group.kubernetes = true"]
            with pytest.MonkeyPatch.context() as patched:
                patched.setenv("NODE_NAME", f"node-{name[-1]}")
                patched.setenv("KUBECONFIG", str(cluster.config(f"node-{name[-1]}")))
                patched.setenv("NO_PROXY", "127.0.0.1")
                stack.enter_context(AgentProcess(home, node=0.5))
        yield NodeGroup(endpoint, homes)


def test_one_approval_after_all_are_ready(cluster: AgentCluster, tmp_path: Path) -> None:
    """The first machine approves when the labels of all say that they are ready."""
    with node_group(cluster, tmp_path, {}) as group:
        event = group.endpoint.freeze(*NAMES)
        group.until_all("drain", "+")
        for home in group.homes:
            assert group.endpoint.approvals == []
            home.release_hooks()
        group.until_all("flush")
        assert [machine for machine, _ in group.endpoint.approvals] == [event.resources[0]]
        group.endpoint.finish("db")
        group.until_all("back")
        wait_until(lambda: all(is_free(cluster, f"node-{number}") for number in range(3)))


def test_a_failed_drain_is_not_approved_by_the_group(cluster: AgentCluster, tmp_path: Path) -> None:
    """The label of its node says `failed`; the event starts at NotBefore."""
    with node_group(cluster, tmp_path, {NAMES[1]: "exit 3"}) as group:
        group.endpoint.freeze(*NAMES)
        for home in group.homes:
            home.release_hooks()
        wait_until(
            lambda: "failed" in cluster.raw_node("node-1")["metadata"].get("labels", {}).values()
        )
        assert group.endpoint.approvals == []
        group.endpoint.advance(15 * 60 + 2)
        group.until_all("flush")
        assert group.endpoint.approvals == []
        group.endpoint.finish("db")
        wait_until(lambda: all(is_free(cluster, f"node-{number}") for number in range(3)))
