"""A machine with an agent that is a node of a cluster."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from fairwarning.core.commands import CreateScope
from fairwarning.core.model import Event, Machine, Priority, Rules, ScopeKind
from tests.guest.agents import AgentEndpoint, AgentFolder, AgentProcess, agent_folders
from tests.kubernetes.clusters import AgentCluster, is_drained, is_free

LOOK_SECONDS = 0.5
MODULE = "fairwarning.guest.agent.kubernetes"
HOOKS = (("drain", "scheduled", '["Reboot", "Preempt"]'), ("mark", "scheduled", '["Freeze"]'))


@dataclass
class AgentNode:
    """A machine `db_0` that is the node `node-1` of a cluster, with a pod."""

    cluster: AgentCluster
    endpoint: AgentEndpoint
    home: AgentFolder

    @contextmanager
    def agent(self) -> Iterator[AgentProcess]:
        with AgentProcess(self.home, node=LOOK_SECONDS) as agent:
            yield agent

    def restart(self, agent: AgentProcess) -> Event:
        """Restart the machine and wait until its node is drained; return the event."""
        event = self.endpoint.restart("db_0")
        agent.wait_until(lambda: is_drained(self.cluster, "node-1"))
        return event

    def finish(self, agent: AgentProcess) -> None:
        """End the event and wait until the node is free."""
        self.endpoint.finish("db")
        agent.wait_until(lambda: is_free(self.cluster, "node-1"))

    def notes(self) -> dict[str, str]:
        notes: dict[str, str] = self.cluster.raw_node("node-1")["metadata"].get("annotations", {})
        return notes

    def output(self) -> str:
        """Return the output of all agents so far."""
        return (self.home.folder / "output").read_text("utf-8", "replace")


@contextmanager
def agent_node(cluster: AgentCluster, folder: Path) -> Iterator[AgentNode]:
    """Provide the machine; the drain of its pod waits for its budget."""
    cluster.node("node-1", "db_0")
    cluster.pod("web", "node-1", owner="ReplicaSet")
    cluster.set_budget("web", 0)
    machine = Machine(name="db_0", priority=Priority.SPOT)
    kind = ScopeKind.AVAILABILITY_SET
    with pytest.MonkeyPatch.context() as patched, AgentEndpoint() as endpoint, ExitStack() as stack:
        endpoint.create(CreateScope(scope="db", kind=kind, machines=(machine,), rules=Rules()))
        endpoint.get("db_0")
        (home,) = stack.enter_context(agent_folders(endpoint, folder / "machine", "db_0"))
        patched.setenv("NODE_NAME", "node-1")
        patched.setenv("KUBECONFIG", str(cluster.config("node-1")))
        patched.setenv("NO_PROXY", "127.0.0.1")
        for name, phase, types in (*HOOKS, ("uncordon", "over", "")):
            on = f"on = {types}\n" if types else ""
            home.hooks.append(
                f'[[hook]]\nname = "{name}"\nphase = "{phase}"\ncall = "{MODULE}:{name}"\n'
                f"{on}timeout_seconds = 300\n"
            )
        yield AgentNode(cluster, endpoint, home)
