"""What the log says about each event: its decision, once, with the reason."""

import logging
from dataclasses import replace

import pytest

from fairwarning.guest.agent import agent_metrics, reporter
from fairwarning.guest.agent.actions import GroupMembers
from fairwarning.guest.agent.config import AgentConfig, ApprovalPolicy, GroupSettings
from fairwarning.guest.agent.decisions import describe_decision
from fairwarning.guest.agent.event_state import NO_TIME_LEFT, ApprovalResult
from fairwarning.guest.agent.notices import EventNotice, NoticePhase
from fairwarning.guest.agent.plan import AgentPlan
from fairwarning.guest.agent.reporter import EventReporter
from fairwarning.guest.events import Document, Event, EventSource, EventType, Phase
from tests.guest.notices import ME, NOW, document, event, hook

pytestmark = pytest.mark.spec("G8")

GROUP = GroupSettings(folder="/shared")
AT_ONCE = AgentConfig(approve={"": ApprovalPolicy.AT_ONCE})
NEVER = AgentConfig(approve={"": ApprovalPolicy.NEVER})
USER_ONLY = AgentConfig(approve={"Reboot": ApprovalPolicy.USER_ONLY})
HOOKS = (hook("drain"), hook("save"), hook("note", required=False))


class ReporterHarness:
    """A plan and its reporter, driven by hand."""

    def __init__(self, config: AgentConfig) -> None:
        self.config = config
        self.plan = AgentPlan(config, ME)
        self.notices: list[EventNotice] = []
        self.reporter = EventReporter(config, ME, self.notices.append)
        self.members: dict[str, GroupMembers] = {}

    def read(self, *events: Event) -> None:
        self.plan.read(document(*events), NOW)
        self.tell()

    def end(self, name: str, failed: str = "", phase: Phase = Phase.SCHEDULED) -> None:
        self.reporter.hook_ended(self.plan.known["A"].event, phase, name, failed)
        self.plan.done("A", phase, name, failed, NOW)
        self.tell()

    def tell(self) -> None:
        """Let the reporter tell what changed."""
        self.reporter.update(self.plan.known, self.members)

    @property
    def decision(self) -> str:
        return describe_decision(self.plan.known["A"], self.config, ME, self.members.get("A"))

    @property
    def phases(self) -> list[str]:
        """The steps that people were told."""
        return [str(notice.phase) for notice in self.notices]


def test_the_hooks_it_waits_for() -> None:
    """Only required ones; a failure is a decision."""
    harness = ReporterHarness(AgentConfig(hooks=HOOKS))
    harness.read(event())
    assert harness.decision == "waiting for hooks drain, save"
    harness.end("drain")
    assert harness.decision == "waiting for hook save"
    harness.end("save", "exit code 1")
    assert harness.decision == "not approved because hook save failed"
    harness.end("note", "exit code 1")
    assert harness.decision == "not approved because hook save failed"
    assert [notice.reason for notice in harness.notices if notice.reason] == [
        "hook save failed: exit code 1",
        "hook note failed: exit code 1",
    ]


def test_events_are_told_in_the_order_of_the_document() -> None:
    """Also several new ones."""
    harness = ReporterHarness(AgentConfig(hooks=HOOKS))
    harness.read(event("A"))
    names = ["A", *"ZYXWVUTSRQ"]
    harness.read(*map(event, names))
    assert [notice.event.id for notice in harness.notices] == names


def test_failures_of_hooks() -> None:
    """One that fails again is told once, until it succeeds; one that was stopped has not failed."""
    harness = ReporterHarness(AgentConfig(hooks=(hook("drain"), hook("back", Phase.OVER))))
    harness.read(event())
    for failed in ("exit code 1", "exit code 1", "", "exit code 1"):
        harness.reporter.hook_ended(event(), Phase.OVER, "back", failed)
    assert harness.phases == ["scheduled", "failed", "failed"]
    harness.reporter.hook_ended(event(), Phase.SCHEDULED, "drain", "was stopped: half done")
    assert harness.phases == ["scheduled", "failed", "failed"]
    assert agent_metrics.HOOKS.value("drain", "scheduled", "stopped") >= 1
    harness.end("drain", NO_TIME_LEFT)
    assert harness.decision == "not approved because hook drain had too little time"


@pytest.mark.parametrize("then", ["answer", "end", "silence"])
def test_a_start_before_the_answer_to_the_approval(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, then: str
) -> None:
    """Two connections: people are told of the approval first, unless its answer does not come."""
    caplog.set_level(logging.INFO)
    harness = ReporterHarness(AgentConfig(hooks=(hook("drain"),)))
    harness.read(event())
    harness.end("drain")
    harness.read(event(started=True))
    assert harness.phases == ["scheduled"]
    if then == "answer":
        harness.plan.approved("A", NOW, ApprovalResult.ACCEPTED)
        harness.tell()
        assert harness.phases == ["scheduled", "approved", "started"]
    elif then == "end":
        harness.read()
        assert harness.phases == ["scheduled", "started", "over"]
    else:
        monkeypatch.setattr(reporter, "ANSWER_SECONDS", 0.0)
        harness.tell()
        assert harness.phases == ["scheduled", "started"]
    assert ("started without our approval" in caplog.text) == (then == "silence")


def test_a_refused_approval() -> None:
    """People are told, once."""
    harness = ReporterHarness(AT_ONCE)
    harness.read(event())
    harness.plan.approved("A", NOW, ApprovalResult.REFUSED)
    harness.tell()
    harness.tell()
    assert harness.decision == "not approved: the endpoint refused the approval"
    assert harness.phases == ["scheduled", "failed"]


NO_HOOK = (
    "not approved: there is no hook of phase scheduled; to approve without one,"
    ' set approve = "at once"'
)
SHARED = "not approved: it names other machines too, and no group is configured"
UNKNOWN = "not approved: its type is unknown; see `approve.unknown`"
FREEZES = hook("drain", Phase.SCHEDULED, EventType.FREEZE)


@pytest.mark.parametrize(
    ("config", "notice", "decision"),
    [
        (NEVER, event(), "not approved: policy never"),
        (USER_ONLY, event(), "not approved: policy user events only, source Platform"),
        (USER_ONLY, event(source=EventSource.USER), "approving"),
        (AgentConfig(), event(), NO_HOOK),
        (AT_ONCE, replace(event(), type="Levitate"), UNKNOWN),
        (AT_ONCE, event("A", ME, "vm-2"), SHARED),
        (AgentConfig(), event(started=True), "started without our approval"),
        (replace(AT_ONCE, hooks=(hook(),)), event(), "approving"),
        (AgentConfig(hooks=(FREEZES,)), event(), "approving"),
    ],
)
def test_the_reason(config: AgentConfig, notice: Event, decision: str) -> None:
    """In words that name the setting."""
    harness = ReporterHarness(config)
    harness.read(notice)
    assert harness.decision == decision


def test_the_machines_it_waits_for() -> None:
    """All that are not ready, alive or not; then the one that leads."""
    harness = ReporterHarness(replace(AT_ONCE, group=GROUP))
    harness.read(event("A", "vm-0", ME, "vm-2", "vm-3"))
    assert harness.decision == "ready; waiting for the state of the other machines"
    alive = frozenset({"vm-0", ME, "vm-2"})
    harness.members["A"] = GroupMembers(alive, frozenset({ME}))
    assert harness.decision == "waiting for machines vm-0, vm-2, vm-3"
    harness.members["A"] = GroupMembers(alive, alive | {"vm-3"})
    assert harness.decision == "ready; machine vm-0 approves"
    harness.members["A"] = GroupMembers(alive, frozenset({ME, "vm-0"}), frozenset({"vm-2"}))
    assert harness.decision == "not approved because a required hook failed on machine vm-2"


def test_each_decision_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """With type, machine, NotBefore and deadline, in the text and as fields."""
    caplog.set_level(logging.INFO)
    harness = ReporterHarness(AgentConfig(hooks=(hook("drain"),)))
    harness.read(event())
    for _ in range(3):
        harness.tell()
    (record,) = caplog.records
    assert record.getMessage() == (
        "event A: Reboot of vm-1, not before 2030-01-02T03:15:00Z, "
        "deadline 2030-01-02T03:14:55Z: waiting for hook drain"
    )
    fields = ("event_id", "event_type", "machine", "not_before", "deadline", "decision")
    assert [record.__dict__[name] for name in fields] == [
        *("A", "Reboot", "vm-1", "2030-01-02T03:15:00Z", "2030-01-02T03:14:55Z"),
        "waiting for hook drain",
    ]
    harness.end("drain", "exit code 1")
    assert (caplog.records[-1].levelname, len(caplog.records)) == ("WARNING", 2)
    harness.read()
    assert caplog.records[-1].getMessage().endswith(": cancelled")
    assert len(caplog.records) == 3


def test_an_event_that_comes_back_is_new() -> None:
    """It is told again from its beginning; one that never started was cancelled."""
    harness = ReporterHarness(AT_ONCE)
    for listed in ([event()], [], [event()]):
        harness.read(*listed)
    assert harness.phases == ["scheduled", "over", "scheduled"]
    assert harness.notices[1] == EventNotice(NoticePhase.OVER, event(), ME)
    never = ReporterHarness(NEVER)
    never.read(event())
    never.read()
    assert (never.notices[-1].reason, never.notices[-1].cancelled) == ("cancelled", True)


def test_only_this_machines_events_count_for_the_next_one(caplog: pytest.LogCaptureFixture) -> None:
    """An event may no longer name it."""
    caplog.set_level(logging.INFO)
    harness = ReporterHarness(AgentConfig(hooks=(hook(),)))
    harness.read(event("A"), event("B"))
    harness.read(event("A", "vm-2"), event("B"))
    assert "not approved: it names other machines only" in caplog.text
    assert [mine.id for mine in harness.reporter.events] == ["B"]
    assert harness.plan.read(Document(2), NOW)
