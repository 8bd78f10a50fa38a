"""Groups on Kubernetes: readiness on nodes, the leader, and the number of calls; with a double."""

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest

from fairwarning.guest.agent.actions import GroupMembers
from fairwarning.guest.agent.config import GroupSettings
from fairwarning.guest.agent.group import create_peers
from fairwarning.guest.agent.kubernetes import KubernetesNodes
from fairwarning.guest.agent.kubernetes import members as members_module
from fairwarning.guest.agent.kubernetes.api import CALL_SECONDS, connect
from fairwarning.guest.agent.kubernetes.nodes import READY as PREFIX
from fairwarning.guest.agent.kubernetes.nodes import group_key
from tests.guest.kubernetes_double import Double, failure
from tests.guest.node_hooks import DRAINED, EVENT, ID, OTHER, drain, state

pytestmark = pytest.mark.spec("G5")

SHARED = replace(EVENT, resources=("vm-1", "vm-2"))
READY = f"fairwarning.dev/ready-{ID.lower()}"


@contextmanager
def nodes(name: str = "vm-1") -> Iterator[KubernetesNodes]:
    """Return the peer directory of an agent, on its node if NODE_NAME is set."""
    with pytest.MonkeyPatch.context() as patched:
        if "NODE_NAME" in os.environ:
            patched.setenv("NODE_NAME", name.replace("vm", "node"))
        peers = create_peers(GroupSettings(kubernetes=True), name)
    assert isinstance(peers, KubernetesNodes)
    try:
        yield peers
    finally:
        peers._client.close()


def test_machines_see_each_others_readiness_on_their_nodes(pair: Double) -> None:
    """Signalling makes no call by itself, and each machine writes once."""
    with nodes() as first, nodes("vm-2") as second:
        first.signal(SHARED, ready=True)
        assert pair.calls == []
        assert first.members(SHARED) == GroupMembers(
            frozenset({"vm-1", "vm-2"}), frozenset({"vm-1"})
        )
        second.signal(SHARED, ready=True)
        second.members(SHARED)
        second.members(SHARED)
        metadata = pair.nodes["node-2"]["metadata"]
        assert (metadata["labels"], metadata["annotations"]) == ({READY: "ready"}, {READY: "vm-2"})
        assert len([call for call in pair.calls if call.startswith("PATCH")]) == 2
        assert first.members(SHARED).ready == {"vm-1", "vm-2"}
        assert first.members(replace(SHARED, id=OTHER.id)).ready == set()


def test_the_leader_sees_failures_on_the_nodes(pair: Double) -> None:
    """The same label shows them, until the machine is ready after all."""
    with nodes() as first, nodes("vm-2") as second:
        second.signal(SHARED, ready=False)
        second.members(SHARED)
        assert first.members(SHARED).failed == {"vm-2"}
        assert first.members(SHARED).ready == set()
        second.signal(SHARED, ready=True)
        pair.clock.sleep(1)
        second.members(SHARED)
        assert first.members(SHARED).failed == set()
        assert first.members(SHARED).ready == {"vm-2"}


def test_nodes_whose_names_say_nothing_about_their_machines(pair: Double) -> None:
    """Each machine knows its node from NODE_NAME, and writes its own name there."""
    for node in pair.nodes.values():
        node["spec"]["providerID"] = ""
    with nodes() as first, nodes("vm-2") as second:
        second.signal(SHARED, ready=True)
        second.members(SHARED)
        assert first.members(SHARED) == GroupMembers(
            frozenset({"vm-1", "vm-2"}), frozenset({"vm-2"})
        )


def test_finished_events_are_removed(pair: Double) -> None:
    """Marks of other kinds stay. After a failure it is tried again, but not every second."""
    with nodes() as first:
        first.signal(SHARED, ready=True)
        first.members(SHARED)
        drain(pair)
        first.forget(ID.lower())
        pair.failing = [failure(503, "not now")]
        with pytest.raises(OSError, match="not now"):
            first.heartbeat()
        calls = len(pair.calls)
        first.heartbeat()
        assert len(pair.calls) == calls
        pair.clock.sleep(30)
        first.heartbeat()
        calls = len(pair.calls)
        first.heartbeat()
        assert len(pair.calls) == calls
    assert state(pair) == DRAINED


def test_the_removal_of_a_label_that_fails_for_minutes_is_given_up(pair: Double) -> None:
    """The upkeep of the node removes it. An event without a label costs no call."""
    with nodes() as first:
        first.forget(OTHER.id)
        first.heartbeat()
        assert pair.calls == []
        first.members(SHARED)
        first.forget(ID)
        calls = len(pair.calls)
        for _ in range(10):
            pair.failing = [failure(503, "not now")]
            with pytest.raises(OSError, match="not now"):
                first.heartbeat()
            pair.clock.sleep(30)
        pair.failing = []
        first.heartbeat()
        assert len(pair.calls) == calls + 10
        assert (first._groups, first._forgotten) == ({}, {})


def test_a_query_while_an_event_ends_leaves_no_label(pair: Double) -> None:
    """The label that it writes is removed after it, by the same thread."""
    with nodes() as first:
        first.signal(SHARED, ready=True)
        first.members(SHARED)
        before = state(pair)
        first.forget(ID)
        first.members(SHARED)
        assert state(pair) != before
        first.heartbeat()
        assert READY not in pair.nodes["node-1"]["metadata"]["labels"]
        assert first._groups == {}


def test_a_kubelet_without_renewals_is_not_alive(pair: Double) -> None:
    """Timed by our own clock since the last renewal seen; a node may also be not ready."""
    with nodes() as first:
        assert first.members(SHARED).alive == {"vm-1", "vm-2"}
        pair.clock.sleep(20)
        pair.lease("node-2", "2030-01-01T00:00:10.000000Z")
        assert first.members(SHARED).alive == {"vm-1", "vm-2"}
        pair.clock.sleep(20)
        assert first.members(SHARED).alive == {"vm-1", "vm-2"}
        pair.clock.sleep(20)
        assert first.members(SHARED).alive == {"vm-1"}
        pair.lease("node-2", "2030-01-01T00:00:20.000000Z")
        pair.clock.sleep(5)
        assert first.members(SHARED).alive == {"vm-1", "vm-2"}
        pair.nodes["node-2"]["status"]["conditions"][0]["status"] = "Unknown"
        pair.clock.sleep(5)
        assert first.members(SHARED).alive == {"vm-1"}


def test_a_machine_becomes_alive_with_its_node(pair: Double) -> None:
    """The cluster is searched for it, but not in every query."""
    del pair.nodes["node-2"], pair.leases["node-2"]
    with nodes() as first:
        for _ in range(5):
            assert first.members(SHARED).alive == {"vm-1"}
        assert pair.calls.count("GET /api/v1/nodes") == 5 + 1  # of labelled nodes, and of all
        pair.node("node-3", "x://cloud/vm-2")
        pair.clock.sleep(30)
        assert first.members(SHARED).alive == {"vm-1", "vm-2"}
        del pair.nodes["node-3"]
        pair.clock.sleep(5)
        assert first.members(SHARED).alive == {"vm-1"}


def test_a_machine_follows_while_one_before_it_is_alive(pair: Double) -> None:
    """It looks rarely, and leads once that machine has been silent."""
    with nodes("vm-2") as second:
        for _ in range(10):
            assert second.members(SHARED).alive == {"vm-1", "vm-2"}
            pair.clock.sleep(1)
        assert len(pair.calls) <= 1 + 1 + 2 * 2
        for _ in range(40):
            pair.clock.sleep(1)
            members = second.members(SHARED)
        assert members.alive == {"vm-2"}
        pair.lease("node-1", "2030-01-01T00:01:00.000000Z")
        pair.clock.sleep(5)
        assert second.members(SHARED).alive == {"vm-1", "vm-2"}


def test_a_machine_that_the_event_does_not_name_makes_no_call(pair: Double) -> None:
    """Its hooks for events of other machines do not make it a member."""
    with nodes("vm-9") as stranger:
        assert stranger.members(SHARED) == GroupMembers(frozenset(), frozenset())
    assert pair.calls == []


@pytest.mark.spec("G9")
def test_a_hundred_machines_in_one_event_stay_below_sixty_calls_a_second(
    cluster: Double, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every second: while they begin, wait, become ready together, and after it."""
    machines = [f"vm-{number}" for number in range(1, 101)]
    event = replace(EVENT, resources=tuple(machines))
    for number in range(1, 151):
        cluster.node(f"node-{number}", f"x://cloud/vm-{number}")
    client = connect(CALL_SECONDS)
    monkeypatch.setattr(members_module, "connect", lambda _: client)  # a client takes a while
    calls: Counter[int] = Counter()
    ready: list[int] = []
    with ExitStack() as stack:
        agents = {name: stack.enter_context(nodes(name)) for name in machines}
        for second in range(45):
            before = len(cluster.calls)
            if second % 10 == 0:
                for name in cluster.nodes:
                    cluster.lease(name, f"2030-01-01T00:00:{second:02}.000000Z")
            for name, agent in agents.items():
                if second == 25:
                    agent.signal(event, ready=True)
                members = agent.members(event)
                if name == "vm-1":
                    ready.append(len(members.ready))
            calls[second] = len(cluster.calls) - before
            cluster.clock.sleep(1)
    assert max(calls.values()) < 60, calls
    assert ready[24] == 0
    assert ready[-1] == 100
    assert ready.index(100) <= 40


@pytest.mark.spec("G9")
def test_a_label_for_every_id() -> None:
    """Ids that are no valid label, or that differ in what a label cannot hold, keep apart."""
    ids = [ID, ID[:-1], "a b", "a_b", "a.b", "-a", "x" * 200, "x" * 201, "\u00e9"]
    keys = {group_key(id_) for id_ in ids}
    assert len(keys) == len(ids)
    assert group_key(ID.lower()) == group_key(ID) == READY
    assert all(len(key.partition("/")[2]) <= 63 for key in keys)
    assert all(key.startswith(PREFIX) for key in keys)


@pytest.mark.spec("G9")
def test_lists_are_paged(pair: Double, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of 1,000 nodes takes ten calls, and keeps no more than one page."""
    for number in range(998):
        pair.node(f"other-{number}", f"x://cloud/other-{number}")
    monkeypatch.delenv("NODE_NAME")
    drain(pair)
    assert pair.calls.count("GET /api/v1/nodes") == 10
    assert state(pair) == DRAINED
