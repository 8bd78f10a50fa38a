"""Tells people what became of each event: log lines, metrics and notifications.

It compares the plan's state after each decision with the state that it last told, so that each
step and each decision is told once. At a restart, steps of the journal are not told again.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from fairwarning.core import times
from fairwarning.guest.agent import agent_metrics
from fairwarning.guest.agent.actions import GroupMembers, RunHook
from fairwarning.guest.agent.config import AgentConfig
from fairwarning.guest.agent.decisions import OVER_UNREADY, describe_decision
from fairwarning.guest.agent.event_state import EventState
from fairwarning.guest.agent.hooks import STOPPED
from fairwarning.guest.agent.log_format import event_fields
from fairwarning.guest.agent.notices import EventNotice, NoticePhase
from fairwarning.guest.agent.work import to_printable
from fairwarning.guest.events import Event, Phase

log = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0  # a start waits so long for the answer to our approval, which came before it

Notify = Callable[[EventNotice], None]


@dataclass
class _EventReport:
    """What was told about an event."""

    state: EventState
    phases: set[NoticePhase] = field(default_factory=set)
    decision: str = ""
    failed_hooks: set[tuple[str, str]] = field(default_factory=set)  # by phase and name
    start_seen_at: float | None = None  # by `time.monotonic`


class EventReporter:
    """Used by the deciding thread only."""

    def __init__(self, config: AgentConfig, machine: str, notify: Notify) -> None:
        self._config = config
        self._machine = machine
        self._notify = notify
        self._reports: dict[str, _EventReport] = {}
        self._began: dict[tuple[str, str, str], float] = {}
        self.events: list[Event] = []
        """This machine's current events; replaced as a whole, so any thread may read it."""

    def reconfigure(self, config: AgentConfig) -> None:
        """Describe decisions by another configuration from now on."""
        self._config = config

    def restore(self, known: Mapping[str, EventState]) -> None:
        """Count the steps of the journal as reported: they are not told again."""
        for key, state in known.items():
            self._reports[key] = _EventReport(state, self._reached(state))

    def update(
        self, known: Mapping[str, EventState], members: Mapping[str, GroupMembers]
    ) -> list[tuple[str, Exception]]:
        """Tell what has changed; return the events about which it could not, and the errors."""
        events = [state.event for state in known.values() if not state.over]
        self.events = [event for event in events if event.concerns(self._machine)]
        errors: list[tuple[str, Exception]] = []
        for key in [*self._reports, *(key for key in known if key not in self._reports)]:
            try:
                self._end_report(key, known.get(key))
                if key in known:
                    self._update_event(key, known[key], members.get(key))
            except Exception as error:  # noqa: BLE001  (other events are still told)
                errors.append((key, error))
        return errors

    def _end_report(self, key: str, current: EventState | None) -> None:
        """Tell the end of an event that is forgotten, and perhaps seen anew since."""
        report = self._reports.get(key)
        if report is not None and report.state is not current:
            del self._reports[key]
            self._tell(report, report.state, self._reached(report.state) | {NoticePhase.OVER})

    def _update_event(self, key: str, state: EventState, members: GroupMembers | None) -> None:
        reported = set(NoticePhase) if state.boot else set()  # the endpoint lists no boot
        report = self._reports.setdefault(key, _EventReport(state, reported))
        if self._awaits_answer(report, state):
            return
        self._tell(report, state, self._reached(state))
        decision = describe_decision(state, self._config, self._machine, members)
        if decision != report.decision:
            report.decision = decision
            self._log_decision(state.event, decision)

    def _awaits_answer(self, report: _EventReport, state: EventState) -> bool:
        """Return True while a start must wait, so that people read of the approval first."""
        if not state.event.started or not state.approval_pending:
            return False
        if report.start_seen_at is None:
            report.start_seen_at = time.monotonic()
        return time.monotonic() - report.start_seen_at < ANSWER_SECONDS

    def _reached(self, state: EventState) -> set[NoticePhase]:
        """Return the steps that an event has reached."""
        reached = {NoticePhase.STARTED if state.event.started else NoticePhase.SCHEDULED}
        if state.approved_at is not None:
            reached.add(NoticePhase.APPROVED)
        if state.refused and not state.over:
            reached.add(NoticePhase.FAILED)
        if state.over:
            reached.add(NoticePhase.OVER)
        return reached

    def _tell(self, report: _EventReport, state: EventState, reached: set[NoticePhase]) -> None:
        for phase in (phase for phase in NoticePhase if phase in reached - report.phases):
            report.phases.add(phase)
            event = state.event
            if phase in {NoticePhase.SCHEDULED, NoticePhase.STARTED, NoticePhase.OVER}:
                agent_metrics.EVENTS.add(agent_metrics.type_label(event), str(phase))
            cancelled = phase is NoticePhase.OVER and state.cancelled
            reason = "cancelled" if cancelled else ""
            if phase is NoticePhase.FAILED:
                reason = "the endpoint refused the approval"
            if phase is NoticePhase.OVER and not report.decision.startswith(("over", "cancelled")):
                report.decision = reason or "over"
                self._log_decision(event, report.decision)
            self._notify(EventNotice(phase, event, self._machine, reason, cancelled))

    def hook_started(self, run: RunHook) -> None:
        """Note when a hook began."""
        self._began[run.event.id.upper(), run.phase, run.hook.name] = time.monotonic()

    def hook_ended(self, event: Event | None, phase: Phase, hook: str, failed: str) -> None:
        """Count a hook, and tell people about its first failure.

        A hook that was stopped because its event is over has not failed.
        """
        stopped = failed.startswith(STOPPED)
        result = (
            agent_metrics.STOPPED
            if stopped
            else agent_metrics.FAILED
            if failed
            else agent_metrics.OK
        )
        agent_metrics.HOOKS.add(hook, str(phase), result)
        report = self._reports.get(event.id.upper()) if event else None
        if event is None or report is None:
            return
        began = self._began.pop((event.id.upper(), phase, hook), None)
        if began is not None:
            agent_metrics.HOOK_SECONDS.observe(time.monotonic() - began, hook, str(phase))
        if not failed:
            report.failed_hooks.discard((phase, hook))
        elif not stopped and (phase, hook) not in report.failed_hooks:
            report.failed_hooks.add((phase, hook))
            reason = f"hook {hook} failed: {failed}"
            self._notify(EventNotice(NoticePhase.FAILED, event, self._machine, reason))

    def _log_decision(self, event: Event, decision: str) -> None:
        not_before = _date(event, 0.0)
        deadline = _date(event, -self._config.margin.total_seconds())
        is_warning = decision.startswith(("not approved", OVER_UNREADY))
        level = logging.WARNING if is_warning else logging.INFO
        when = f", not before {not_before}, deadline {deadline}" if not_before else ""
        log.log(
            level,
            "event %s: %s of %s%s: %s",
            *(to_printable(event.id), to_printable(str(event.type))),
            *(to_printable(", ".join(event.resources)), when, decision),
            extra=event_fields(event, self._machine, deadline=deadline, decision=decision),
        )


def _date(event: Event, seconds: float) -> str:
    """Return NotBefore plus some seconds; empty if there is none."""
    if event.not_before is None:
        return ""
    return times.iso(int(event.not_before.timestamp() + seconds))
