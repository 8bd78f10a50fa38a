"""The agent's decisions after a restart of the agent or the machine (G6)."""

from dataclasses import replace

import pytest

from fairwarning.guest.agent.actions import AgentJournalEntry, SignalState, WriteNote
from fairwarning.guest.agent.journal import _current
from fairwarning.guest.events import Event, EventStatus, EventType, Phase
from tests.guest.notices import ALL, BACK, DRAIN, FOLDER, ME, NOW, THREE, event, hook
from tests.guest.planned_agent import PlannedAgent, journal

pytestmark = pytest.mark.spec("G6")

KINDS = (EventType.FREEZE, EventType.REBOOT)
PREPARED = ("seen", "begun drain", "begun note", "done note", "done drain")


def restarted(*lines: str) -> PlannedAgent:
    """Return an agent with this journal."""
    return PlannedAgent(journal=journal(*lines))


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (PREPARED[:1], ["run drain", "run note"]),
        (PREPARED[:2], ["run drain", "run note"]),
        (PREPARED[:3], ["run drain", "run note"]),
        (PREPARED[:4], ["run drain"]),
        (PREPARED, ["approve A"]),
        ((*PREPARED, "approving"), ["approve A"]),
        ((*PREPARED, "approving", "approved"), []),
        # An interrupted hook that moved to another phase does not run in the earlier one.
        (("seen", "begun scheduled/flush"), ["run drain", "run note"]),
    ],
)
def test_a_restart_during_preparation(lines: tuple[str, ...], expected: list[str]) -> None:
    """Interrupted hooks run again, finished ones do not, and the approval is sent."""
    assert list(dict.fromkeys(restarted(*lines).starts(event()))) == expected


def test_a_restart_after_the_event_started() -> None:
    """It is too late to prepare: the interrupted hook has failed."""
    agent = restarted("seen", "begun drain")
    assert agent.starts(event(started=True)) == ["run flush"]
    assert journal("done drain: was interrupted")[0] in agent.notes


FREEZE_DRAIN, REBOOT_DRAIN = (hook(f"drain {kind}", Phase.SCHEDULED, kind) for kind in KINDS)
FREEZE_BACK, REBOOT_BACK = (hook(f"back {kind}", Phase.OVER, kind) for kind in KINDS)
TYPED = (FREEZE_DRAIN, REBOOT_DRAIN, FREEZE_BACK, REBOOT_BACK)


@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("restarts", ["", "before", "after"])
def test_a_changed_type_is_undone_too(started: bool, restarts: str) -> None:
    """IG1: the hooks of phase over fit every type that the event had, also after a restart."""
    first, second = event(type=KINDS[0]), event(type=KINDS[1], started=started)
    agent = PlannedAgent(*TYPED)
    assert agent.reads(first) == ["run drain Freeze"]
    agent.ends("drain Freeze")
    if restarts == "before":
        agent = PlannedAgent(*TYPED, journal=_current(agent.journal))
        agent.starts(second)
    else:
        agent.reads(second)
    if restarts == "after":
        agent = PlannedAgent(*TYPED, journal=_current(agent.journal))
        agent.starts(second)
    over = agent.reads()
    over = over if "run back Freeze" in over else over + agent.ends("drain Reboot", "was stopped")
    assert [words for words in over if "back" in words] == ["run back Freeze", "run back Reboot"]


def test_a_restart_signals_readiness_again() -> None:
    """Peers that query the restarted agent must see it."""
    shared = event("A", *THREE)
    agent = PlannedAgent(group=FOLDER, journal=journal(*PREPARED, seen=shared))
    agent.starts(shared)
    assert agent.actions == [
        WriteNote(AgentJournalEntry("ready", "A")),
        SignalState(shared, ready=True),
    ]
    again = PlannedAgent(group=FOLDER, journal=journal(*PREPARED, "ready", seen=shared))
    again.starts(shared)
    assert again.actions == [SignalState(shared, ready=True)]


@pytest.mark.parametrize(("resources", "is_cancelled"), [(THREE, False), ((ME,), True)])
def test_the_group_may_have_approved_while_this_machine_was_away(
    resources: tuple[str, ...], is_cancelled: bool
) -> None:
    """It was ready, so what is gone when it is back was not surely cancelled."""
    before = PlannedAgent(DRAIN, BACK, group=FOLDER)
    before.reads(event("A", *resources))
    if not is_cancelled:
        assert before.ends("drain") == ["ready for A"]
    agent = PlannedAgent(DRAIN, BACK, group=FOLDER, journal=before.journal)
    agent.starts()
    assert [run.hook for run in agent.runs] == [BACK]
    assert agent.runs[0].cancelled is is_cancelled


@pytest.mark.parametrize("listed", [True, False])
def test_an_event_of_another_machine_in_the_journal(listed: bool) -> None:
    """An earlier version could track it: it is forgotten, and nothing runs for it."""
    stranger = event("A", "vm-2")
    agent = PlannedAgent(journal=journal("seen", *[] if listed else ["over"], seen=stranger))
    assert agent.plan.known == {}
    agent.starts(*[stranger] if listed else [])
    assert agent.actions == [WriteNote(AgentJournalEntry("forgotten", "A"))]


@pytest.mark.parametrize("approved", [[], ["approved"]])
def test_an_approval_waits_for_a_hook_that_was_added(approved: list[str]) -> None:
    """IG1: while the agent was down."""
    lines = journal("seen", "begun drain", "done drain", "approving", *approved)
    agent = PlannedAgent(*ALL, hook("save"), journal=lines)
    first = agent.starts(event()) + agent.waits()
    assert "run save" in first
    assert "approve A" not in first
    assert "approve A" in agent.ends("save") + agent.waits()


# --- Hooks with `boot` run once after each boot of the machine ------------------------------------

JOIN = hook("join", Phase.OVER, boot=True)
BOOT = Event("BOOT-1", "Boot", EventStatus.STARTED, (ME,))


def test_once_for_each_boot() -> None:
    """A later start of the agent does not run it again; one that was interrupted runs."""
    first = PlannedAgent(DRAIN, JOIN)
    assert first.starts(boot=BOOT) == ["run join"]
    interrupted = PlannedAgent(DRAIN, JOIN, journal=[*first.journal])
    assert interrupted.starts(boot=BOOT) == ["run join"]
    first.ends("join", of="BOOT-1")
    again, later = (PlannedAgent(DRAIN, JOIN, journal=first.journal) for _ in range(2))
    again.starts(boot=BOOT)
    assert again.actions == []
    assert later.starts(boot=replace(BOOT, id="BOOT-2")) == ["run join"]
    assert AgentJournalEntry("forgotten", "BOOT-1") in later.notes


def test_nothing_is_prepared_before_it_has_run() -> None:
    """It would undo the preparation; a failed one runs again when nothing is prepared."""
    agent, later = PlannedAgent(DRAIN, JOIN), NOW.replace(hour=23)
    assert agent.starts(event(), boot=BOOT) == ["run join", "shorten join"]
    assert agent.ends("join", "exit code 1", of="BOOT-1") == ["run drain"]
    agent.ends("drain")
    assert "run join" not in agent.waits(later)
    assert agent.reads(now=later) == ["run join"]
    agent.ends("join", now=later)
    assert "BOOT-1" in agent.plan.known


def test_it_does_not_run_beside_itself() -> None:
    """After a reboot it also undoes the event that the journal knows."""
    before = PlannedAgent(DRAIN, JOIN)
    before.reads(event())
    agent = PlannedAgent(DRAIN, JOIN, journal=before.journal)
    assert agent.starts(boot=BOOT) == ["run join"]
    assert agent.ends("join", of=agent.runs[0].event.id) == ["run join"]


def test_without_such_a_hook_a_boot_is_nothing() -> None:
    """Not even a line of the journal."""
    agent = PlannedAgent()
    agent.starts(boot=BOOT)
    assert agent.actions == []
