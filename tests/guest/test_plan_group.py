"""The agent's decisions about events that name several machines, in virtual time."""

from dataclasses import replace
from datetime import timedelta

import pytest

from fairwarning.guest.agent.event_state import NO_TIME_LEFT
from tests.guest.notices import DRAIN, FOLDER, MARGIN, ME, NOTE, NOTICE, NOW, THREE, event, members
from tests.guest.planned_agent import PlannedAgent, drained, journal

pytestmark = pytest.mark.spec("G5")

SHARED = event("A", *THREE)
NEARLY = NOW + NOTICE - MARGIN
"""Shortly before NotBefore."""
EARLY = NEARLY - timedelta(seconds=1)


def test_the_leader_approves_once_all_are_ready() -> None:
    """The first of Resources approves when all living members are ready."""
    agent = PlannedAgent(DRAIN, group=FOLDER)
    agent.reads(SHARED)
    assert agent.plan.shared() == [SHARED]
    all_ready = members(*THREE, ready=THREE)
    assert agent.hears(all_ready) == []  # but this machine is not
    assert agent.ends("drain") == ["ready for A"]
    assert agent.hears(members(*THREE, ready=THREE[:2])) == []
    assert agent.hears(all_ready) == ["approve A"]
    assert agent.hears(all_ready) == []
    assert agent.plan.shared() == []


@pytest.mark.parametrize(
    ("alive", "approved"),
    [(("vm-0", ME), []), ((ME,), ["approve A"]), ((ME, "vm-2"), ["approve A"])],
)
def test_machines_that_are_dead_or_unknown_are_waited_for(
    alive: tuple[str, ...], approved: list[str]
) -> None:
    """Until shortly before NotBefore; but a dead machine does not lead."""
    agent = drained(DRAIN, listed=event("A", "vm-0", ME, "vm-2"), group=FOLDER)
    state = members(*alive, ready=(ME, "vm-0"))
    assert agent.hears(state) == agent.hears(state, EARLY) == []
    assert agent.hears(state, NEARLY) == approved


@pytest.mark.parametrize("alive", [THREE, THREE[:2]])
@pytest.mark.parametrize(("over_failures", "approved"), [(False, []), (True, ["approve A"])])
def test_a_member_that_failed_blocks_the_approval(
    alive: tuple[str, ...], over_failures: bool, approved: list[str]
) -> None:
    """Silence does not, and failures do not either if the configuration says so."""
    failed = members(*alive, ready=THREE[:2], failed=("vm-3",))
    group = replace(FOLDER, approve_over_failures=over_failures)
    agent = drained(DRAIN, listed=SHARED, group=group)
    if alive == THREE:
        assert agent.hears(failed) == []
    assert agent.hears(failed, NEARLY) == approved


def test_a_member_that_failed_blocks_the_approval_while_it_is_silent() -> None:
    """It may not be reachable just then; only its readiness revokes the failure."""
    agent = PlannedAgent(DRAIN, group=FOLDER)
    agent.reads(SHARED)
    failed = members(*THREE, failed=("vm-2",))
    assert agent.hears(failed) == []  # this machine is not ready yet
    agent.ends("drain")
    assert agent.hears(members(ME, "vm-3"), NEARLY) == []
    assert agent.hears(members(*THREE, ready=("vm-2",)), NEARLY) == ["approve A"]


@pytest.mark.parametrize("failure", ["exit code 1", NO_TIME_LEFT])
def test_a_machine_tells_its_group_that_a_required_hook_failed(failure: str) -> None:
    """Once, and again after a restart; an optional hook does not matter."""
    agent = PlannedAgent(DRAIN, NOTE, group=FOLDER)
    agent.reads(SHARED)
    assert agent.ends("note", "exit code 1") == []
    assert agent.ends("drain", failure) == ["failed A"]
    assert "failed A" not in agent.reads(event("A", *THREE, notice=timedelta(seconds=9)))
    lines = ("begun drain", "begun note", "done note", "done drain: exit code 1")
    again = PlannedAgent(group=FOLDER, journal=journal("seen", *lines, seen=SHARED))
    assert again.starts(SHARED) == ["failed A"]
    assert again.notes == []


def test_a_machine_that_failed_may_become_ready() -> None:
    """Its hook had not begun, and NotBefore moved."""
    agent = PlannedAgent(DRAIN, group=FOLDER)
    agent.reads(event("A", *THREE, notice=timedelta(seconds=1)))
    agent.ends("drain", NO_TIME_LEFT)
    agent.reads(SHARED)
    assert agent.ends("drain") == ["ready for A"]
