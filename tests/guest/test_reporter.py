"""What the log says about each event: its decision, once, with the reason."""

import logging

import pytest

from fairwarning.guest.agent import agent_metrics, reporter
from fairwarning.guest.agent.actions import GroupMembers
from fairwarning.guest.agent.config import AgentConfig, ApprovalPolicy, GroupSettings
from fairwarning.guest.agent.decisions import describe_decision
from fairwarning.guest.agent.event_state import NO_TIME_LEFT
from fairwarning.guest.agent.notices import EventNotice, NoticePhase
from fairwarning.guest.agent.plan import AgentPlan
from fairwarning.guest.agent.reporter import EventReporter
from fairwarning.guest.events import Document, Event, EventSource, EventType
from fairwarning.guest.watch import Phase
from tests.guest.notices import ME, NOW, document, event, hook, runs

pytestmark = pytest.mark.spec("G8")

GROUP = GroupSettings(folder="/shared")
HOOKS = (hook("drain"), hook("save"), hook("note", required=False))


class Story:
    """A plan and its reporter, driven by hand."""

    def __init__(self, config: AgentConfig) -> None:
        self.config = config
        self.plan = AgentPlan(config, ME)
        self.notices: list[EventNotice] = []
        self.reporter = EventReporter(config, ME, self.notices.append)
        self.members: dict[str, GroupMembers] = {}

    def read(self, *events: Event) -> list[str]:
        """Read a document; return the hooks that it starts."""
        started = runs(self.plan.read(document(*events), NOW))
        self.tell()
        return started

    def end(self, name: str, failed: str = "", phase: Phase = Phase.SCHEDULED) -> None:
        """End a hook."""
        self.reporter.hook_ended(self.plan.known["A"].event, phase, name, failed)
        self.plan.done("A", phase, name, failed, NOW)
        self.tell()

    def tell(self) -> None:
        """Let the reporter tell what changed."""
        self.reporter.update(self.plan.known, self.members)

    @property
    def decision(self) -> str:
        """The decision about the event."""
        return describe_decision(self.plan.known["A"], self.config, ME, self.members.get("A"))

    @property
    def phases(self) -> list[str]:
        """The steps that people were told."""
        return [str(notice.phase) for notice in self.notices]


def test_the_hooks_it_waits_for() -> None:
    """Only required ones; a failure is a decision."""
    story = Story(AgentConfig(hooks=HOOKS))
    story.read(event())
    assert story.decision == "waiting for hooks drain, save"
    story.end("drain")
    assert story.decision == "waiting for hook save"
    story.end("save", "exit code 1")
    assert story.decision == "not approved because hook save failed"
    story.end("note", "exit code 1")
    assert story.decision == "not approved because hook save failed"
    assert [notice.reason for notice in story.notices if notice.reason] == [
        "hook save failed: exit code 1",
        "hook note failed: exit code 1",
    ]


def test_a_hook_without_time() -> None:
    """It may run again if NotBefore moves."""
    story = Story(AgentConfig(hooks=(hook("drain"),)))
    story.read(event())
    story.end("drain", NO_TIME_LEFT)
    assert story.decision == "not approved because hook drain had too little time"


def test_a_hook_that_fails_again_is_told_once() -> None:
    """Until it succeeds: hooks of phase over are tried again and again."""
    story = Story(AgentConfig(hooks=(hook("back", Phase.OVER),)))
    story.read(event())
    for failed in ("exit code 1", "exit code 1", "", "exit code 1"):
        story.reporter.hook_ended(event(), Phase.OVER, "back", failed)
    assert story.phases == ["scheduled", "failed", "failed"]


def test_a_hook_that_was_stopped_has_not_failed() -> None:
    """Its event was over before it was done."""
    story = Story(AgentConfig(hooks=HOOKS))
    story.read(event())
    story.reporter.hook_ended(event(), Phase.SCHEDULED, "drain", "was stopped: half done")
    assert story.phases == ["scheduled"]
    assert agent_metrics.HOOKS.value("drain", "scheduled", "stopped") >= 1


def test_a_dry_run_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is approved."""
    caplog.set_level(logging.INFO)
    config = AgentConfig()
    plan = AgentPlan(config, ME)
    plan.read(document(event()), NOW)
    EventReporter(config, ME, lambda _: None, dry=True).update(plan.known, {})
    assert caplog.records[-1].getMessage().endswith(": approving (dry run)")


def test_an_approval() -> None:
    """Approving until the endpoint has accepted it."""
    story = Story(AgentConfig(hooks=(hook("drain"),)))
    story.read(event())
    story.end("drain")
    assert story.decision == "approving"
    story.plan.approved("A", NOW)
    story.tell()
    assert story.decision == "approved"
    story.read(event(started=True))
    story.read()
    assert story.phases == ["scheduled", "approved", "started", "over"]


def start_before_the_answer() -> Story:
    """A document with the start is read before the answer to the approval that caused it."""
    story = Story(AgentConfig(hooks=(hook("drain"),)))
    story.read(event())
    story.end("drain")
    story.read(event(started=True))
    return story


def test_a_start_is_told_after_its_approval() -> None:
    """Two connections: the answer may come after the document."""
    story = start_before_the_answer()
    assert story.phases == ["scheduled"]
    story.plan.approved("A", NOW)
    story.tell()
    assert story.phases == ["scheduled", "approved", "started"]


def test_a_start_and_an_end_before_the_answer() -> None:
    """Each step is told, though the answer never comes."""
    story = start_before_the_answer()
    story.read()
    assert story.phases == ["scheduled", "started", "over"]


def test_a_start_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """If approvals fail for long, people are told of the start."""
    story = start_before_the_answer()
    monkeypatch.setattr(reporter, "ANSWER_SECONDS", 0.0)
    story.tell()
    assert story.phases == ["scheduled", "started"]


def test_a_refused_approval() -> None:
    """People are told, once."""
    story = Story(AgentConfig())
    story.read(event())
    story.plan.approved("A", NOW, gone=True)
    story.tell()
    story.tell()
    assert story.decision == "not approved: the endpoint refused the approval"
    assert story.phases == ["scheduled", "failed"]


@pytest.mark.parametrize(
    ("config", "notice", "decision"),
    [
        (
            AgentConfig(approve={"": ApprovalPolicy.NEVER}),
            event(),
            "not approved: policy never",
        ),
        (
            AgentConfig(approve={"Reboot": ApprovalPolicy.USER_ONLY}),
            event(),
            "not approved: policy user events only, source Platform",
        ),
        (
            AgentConfig(approve={"": ApprovalPolicy.USER_ONLY}),
            event(source=EventSource.USER),
            "approving",
        ),
        (
            AgentConfig(),
            event("A", ME, "vm-2"),
            "not approved: it names other machines too, and no group is configured",
        ),
        (
            AgentConfig(hooks=(hook(anyone=True),)),
            event("A", "vm-2"),
            "not approved: it names other machines only",
        ),
        (AgentConfig(), event(started=True), "started without our approval"),
        (
            AgentConfig(approve={"": ApprovalPolicy.AT_ONCE}, hooks=(hook(),)),
            event(),
            "approving",
        ),
        (
            AgentConfig(hooks=(hook("drain", Phase.SCHEDULED, EventType.FREEZE),)),
            event(),
            "approving",
        ),
    ],
)
def test_the_reason(config: AgentConfig, notice: Event, decision: str) -> None:
    """In words that name the setting."""
    story = Story(config)
    story.read(notice)
    assert story.decision == decision


def test_the_machines_it_waits_for() -> None:
    """Those that are alive and not ready; then the one that leads."""
    story = Story(AgentConfig(group=GROUP))
    story.read(event("A", "vm-0", ME, "vm-2", "vm-3"))
    assert story.decision == "ready; waiting for the state of the other machines"
    alive = frozenset({"vm-0", ME, "vm-2"})
    story.members["A"] = GroupMembers(alive, frozenset({ME}))
    assert story.decision == "waiting for machines vm-0, vm-2"
    story.members["A"] = GroupMembers(alive, alive)
    assert story.decision == "ready; machine vm-0 approves"
    story.members["A"] = GroupMembers(alive, frozenset({ME, "vm-0"}), frozenset({"vm-2"}))
    assert story.decision == "not approved because a required hook failed on machine vm-2"


def test_each_decision_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """With type, machine, NotBefore and deadline, in the text and as fields."""
    caplog.set_level(logging.INFO)
    story = Story(AgentConfig(hooks=(hook("drain"),)))
    story.read(event())
    for _ in range(3):
        story.tell()
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
    story.end("drain", "exit code 1")
    assert (caplog.records[-1].levelname, len(caplog.records)) == ("WARNING", 2)
    story.read()
    assert caplog.records[-1].getMessage().endswith(": cancelled")
    assert len(caplog.records) == 3


def test_an_event_without_hooks_is_over_too() -> None:
    """The plan forgets it in the same step."""
    story = Story(AgentConfig())
    story.read(event())
    story.read()
    assert story.phases == ["scheduled", "over"]
    assert story.notices[-1] == EventNotice(NoticePhase.OVER, event(), ME)


def test_a_cancelled_event_says_so() -> None:
    """It has had no impact."""
    story = Story(AgentConfig(approve={"": ApprovalPolicy.NEVER}))
    story.read(event())
    story.read()
    assert (story.notices[-1].reason, story.notices[-1].cancelled) == ("cancelled", True)


def test_an_event_that_comes_back_is_new() -> None:
    """It is told again from its beginning."""
    story = Story(AgentConfig())
    for listed in (event(), None, event()):
        story.read(*([listed] if listed else []))
    assert story.phases == ["scheduled", "over", "scheduled"]


def test_a_restart_does_not_tell_again() -> None:
    """What the journal knows has been told."""
    story = Story(AgentConfig(hooks=(hook("drain"),)))
    story.read(event())
    again = EventReporter(story.config, ME, story.notices.append)
    again.restore(story.plan.known)
    again.update(story.plan.known, {})
    assert story.phases == ["scheduled"]


def test_only_this_machines_events_count_for_the_next_one() -> None:
    """A hook for any machine may track others."""
    story = Story(AgentConfig(hooks=(hook(anyone=True),)))
    story.read(event("A", "vm-2"), event("B"))
    assert [mine.id for mine in story.reporter.events] == ["B"]
    assert story.plan.read(Document(2), NOW)
