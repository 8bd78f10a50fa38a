"""Hooks of phase over with `boot` run once after each boot of the machine."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest

from fairwarning.guest.agent.actions import AgentJournalEntry
from fairwarning.guest.agent.plan import AgentPlan
from fairwarning.guest.events import Event, EventStatus
from fairwarning.guest.watch import Phase
from tests.guest.agents import AgentProcess, one_machine
from tests.guest.notices import DRAIN, ME, NOW, document, entries, event, hook, plan, runs

pytestmark = pytest.mark.spec("G6")

JOIN = hook("join", Phase.OVER, boot=True)


def boot(name: str = "BOOT-1") -> Event:
    """Return the event of a boot."""
    return Event(name, "Boot", EventStatus.STARTED, (ME,))


def restarted(lines: Iterable[AgentJournalEntry]) -> AgentPlan:
    """Return the plan of an agent with this journal."""
    agent_plan = plan(DRAIN, JOIN)
    agent_plan.restore(lines)
    return agent_plan


def test_once_for_each_boot() -> None:
    """A later start of the agent does not run it again; one that was interrupted runs."""
    first = plan(DRAIN, JOIN)
    lines = first.resume(document(), NOW, boot())
    assert runs(lines) == ["join"]
    assert runs(restarted(entries(lines)).resume(document(), NOW, boot())) == ["join"]
    lines += first.done("BOOT-1", Phase.OVER, "join", "", NOW)
    assert restarted(entries(lines)).resume(document(), NOW, boot()) == []
    later = restarted(entries(lines)).resume(document(), NOW, boot("BOOT-2"))
    assert runs(later) == ["join"]
    assert [entry.event for entry in entries(later) if entry.step == "forgotten"] == ["BOOT-1"]


def test_nothing_is_prepared_before_it_has_run() -> None:
    """It would undo the preparation; a failed one runs again when nothing is prepared."""
    agent_plan, later = plan(DRAIN, JOIN), NOW.replace(hour=23)
    assert runs(agent_plan.resume(document(event()), NOW, boot())) == ["join"]
    assert runs(agent_plan.done("BOOT-1", Phase.OVER, "join", "exit code 1", NOW)) == ["drain"]
    agent_plan.done("A", Phase.SCHEDULED, "drain", "", NOW)
    assert runs(agent_plan.due(later)) == []
    assert runs(agent_plan.read(document(), later)) == ["join"]
    agent_plan.done("A", Phase.OVER, "join", "", later)
    assert "BOOT-1" in agent_plan.known


def test_it_does_not_run_beside_itself() -> None:
    """After a reboot it also undoes the event that the journal knows."""
    lines = entries(plan(DRAIN, JOIN).read(document(event()), NOW))
    agent_plan = restarted(lines)
    assert runs(agent_plan.resume(document(), NOW, boot())) == ["join"]
    (first,) = [key for key, tracked in agent_plan.known.items() if tracked.is_running(Phase.OVER)]
    assert runs(agent_plan.done(first, Phase.OVER, "join", "", NOW)) == ["join"]


def test_without_such_a_hook_a_boot_is_nothing() -> None:
    """Not even a line of the journal."""
    assert plan().resume(document(), NOW, boot()) == []


def test_a_reimage(tmp_path: Path) -> None:
    """It loses the journal, so the hook runs again; a restart of the agent keeps it."""
    with one_machine(tmp_path) as (_, home):
        home.hook("join", "over", more="boot = true")
        with AgentProcess(home) as agent:
            agent.wait_until(lambda: home.ran() == ["join"])
            agent.wait_until(lambda: "done" in home.steps())
        with AgentProcess(home) as agent:
            agent.wait_until(lambda: agent.output().count("watching for db_0") == 2)
            agent.wait_until(lambda: agent.output().count("Boot of db_0") == 2)
        assert home.ran() == ["join"]
        shutil.rmtree(home.state)
        with AgentProcess(home) as agent:
            agent.wait_until(lambda: home.ran() == ["join", "join"])
        assert home.log()[0].startswith("+ join over BOOT-")
