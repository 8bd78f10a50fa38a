"""The agent's decisions about events that name several machines, in virtual time."""

from dataclasses import replace
from datetime import timedelta

import pytest

from fairwarning.guest.agent.actions import (
    AgentJournalEntry,
    GroupMembers,
    SignalFailed,
    SignalReady,
)
from fairwarning.guest.agent.event_state import NO_TIME_LEFT
from fairwarning.guest.watch import Phase
from tests.guest.notices import (
    BEGUN,
    DRAIN,
    FOLDER,
    MARGIN,
    ME,
    NOTE,
    NOTE_DONE,
    NOTED,
    NOTICE,
    NOW,
    THREE,
    document,
    event,
    members,
    plan,
    restored,
    sends,
)

pytestmark = pytest.mark.spec("G5")


def test_the_leader_approves_once_all_are_ready() -> None:
    """The first of Resources approves when all living members are ready."""
    agent_plan = plan(DRAIN, group=FOLDER)
    agent_plan.read(document(event("A", *THREE)), NOW)
    assert agent_plan.shared() == [event("A", *THREE)]
    all_ready = {"A": members(*THREE, ready=THREE)}
    assert agent_plan.tick(all_ready, NOW) == []  # but this machine is not
    done = agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)
    assert done[1:] == [SignalReady(event("A", *THREE))]
    assert agent_plan.tick({"A": members(*THREE, ready=THREE[:2])}, NOW) == []
    assert sends(agent_plan.tick(all_ready, NOW)) == ["A"]
    assert agent_plan.tick(all_ready, NOW) == []
    assert agent_plan.shared() == []


@pytest.mark.parametrize("alive", [("vm-0", ME), (ME,), (ME, "vm-2")])
def test_machines_that_are_dead_or_unknown_are_waited_for(alive: tuple[str, ...]) -> None:
    """Until shortly before NotBefore; but a dead machine does not lead."""
    agent_plan = plan(DRAIN, group=FOLDER)
    agent_plan.read(document(event("A", "vm-0", ME, "vm-2")), NOW)
    agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)
    state = {"A": members(*alive, ready=(ME, "vm-0"))}
    nearly = NOW + NOTICE - MARGIN
    assert agent_plan.tick(state, NOW) == []
    assert agent_plan.tick(state, nearly - timedelta(seconds=1)) == []
    assert sends(agent_plan.tick(state, nearly)) == ([] if "vm-0" in alive else ["A"])


def test_a_dead_leader_that_was_ready_is_replaced_at_once() -> None:
    """All are ready: there is nothing to wait for."""
    agent_plan = plan(DRAIN, group=FOLDER)
    agent_plan.read(document(event("A", "vm-0", ME)), NOW)
    agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)
    assert sends(agent_plan.tick({"A": members(ME, ready=("vm-0", ME))}, NOW)) == ["A"]


def test_the_leader_approves_shortly_before_not_before() -> None:
    """It still waits for its own required hooks (IG1)."""
    nearly = NOW + NOTICE - MARGIN
    early = nearly - timedelta(seconds=1)
    others = {"A": members(*THREE)}
    agent_plan = plan(DRAIN, group=FOLDER)
    agent_plan.read(document(event("A", *THREE)), NOW)
    assert agent_plan.tick(others, nearly) == []
    agent_plan.done("A", Phase.SCHEDULED, "drain", "", early)
    assert agent_plan.tick(others, early) == []
    assert sends(agent_plan.tick(others, nearly)) == ["A"]


@pytest.mark.parametrize("alive", [THREE, THREE[:2]])
def test_a_member_that_failed_blocks_the_approval(alive: tuple[str, ...]) -> None:
    """Silence does not, and failures do not either if the configuration says so."""
    early, nearly = NOW, NOW + NOTICE - MARGIN
    failed = {"A": GroupMembers(frozenset(alive), frozenset(THREE[:2]), frozenset(["vm-3"]))}
    for group, approved in ((FOLDER, []), (replace(FOLDER, approve_over_failures=True), ["A"])):
        agent_plan = plan(DRAIN, group=group)
        agent_plan.read(document(event("A", *THREE)), NOW)
        agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)
        if alive == THREE:
            assert agent_plan.tick(failed, early) == []
        assert sends(agent_plan.tick(failed, nearly)) == approved


def test_a_member_that_failed_blocks_the_approval_while_it_is_silent() -> None:
    """It may not be reachable just then; only its readiness revokes the failure."""
    nearly = NOW + NOTICE - MARGIN
    agent_plan = plan(DRAIN, group=FOLDER)
    agent_plan.read(document(event("A", *THREE)), NOW)
    failed = GroupMembers(frozenset(THREE), frozenset(), frozenset(["vm-2"]))
    assert agent_plan.tick({"A": failed}, NOW) == []  # this machine is not ready yet
    agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)
    assert agent_plan.tick({"A": members(ME, "vm-3")}, nearly) == []
    assert sends(agent_plan.tick({"A": members(*THREE, ready=("vm-2",))}, nearly)) == ["A"]


@pytest.mark.parametrize("failure", ["exit code 1", NO_TIME_LEFT])
def test_a_machine_tells_its_group_that_a_required_hook_failed(failure: str) -> None:
    """Once, and again after a restart; an optional hook does not matter."""
    shared = event("A", *THREE)
    agent_plan = plan(DRAIN, NOTE, group=FOLDER)
    agent_plan.read(document(shared), NOW)
    assert len(agent_plan.done("A", Phase.SCHEDULED, "note", "exit code 1", NOW)) == 1
    failed = agent_plan.done("A", Phase.SCHEDULED, "drain", failure, NOW)
    assert failed[1:] == [SignalFailed(shared)]
    soon = event("A", *THREE, notice=timedelta(seconds=9))
    assert SignalFailed not in map(type, agent_plan.read(document(soon), NOW))
    lines = [AgentJournalEntry("seen", "A", seen=shared), BEGUN, NOTED, NOTE_DONE]
    lines.append(AgentJournalEntry("done", "A", Phase.SCHEDULED, "drain", "exit code 1"))
    assert restored(*lines, group=FOLDER).resume(document(shared), NOW) == [SignalFailed(shared)]


def test_a_machine_that_failed_may_become_ready() -> None:
    """Its hook had not begun, and NotBefore moved."""
    agent_plan = plan(DRAIN, group=FOLDER)
    agent_plan.read(document(event("A", *THREE, notice=timedelta(seconds=1))), NOW)
    agent_plan.done("A", Phase.SCHEDULED, "drain", NO_TIME_LEFT, NOW)
    agent_plan.read(document(event("A", *THREE)), NOW)
    done = agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)
    assert done[1:] == [SignalReady(event("A", *THREE))]
