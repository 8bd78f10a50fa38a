"""What an agent would do for an event, shown or tried out with an invented one (G8).

Both use the real plan with the real configuration. Nothing is approved, and no journal is opened,
so a running agent is not disturbed.
"""

from __future__ import annotations

import os
import queue
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone

from fairwarning.guest.agent import agent_metrics
from fairwarning.guest.agent.actions import Action, RunHook, SendApproval, SignalState
from fairwarning.guest.agent.config import AgentConfig
from fairwarning.guest.agent.decisions import describe_decision
from fairwarning.guest.agent.hooks import HookRunner
from fairwarning.guest.agent.notices import EventNotice, NoticePhase
from fairwarning.guest.agent.notify import Notifier
from fairwarning.guest.agent.plan import AgentPlan
from fairwarning.guest.events import Document, Event, EventSource, EventStatus, EventType, Phase

NOTICE_SECONDS: Mapping[str, float] = {
    EventType.FREEZE: 900,
    EventType.REBOOT: 900,
    EventType.REDEPLOY: 600,
    EventType.PREEMPT: 30,
    EventType.TERMINATE: 300,
    EventType.SPOT_REBALANCE: 900,
}
"""The shortest notice that Azure gives; for the last one Azure names none."""

VARIABLE = "FAIRWARNING_DRILL"
NOTIFY_ATTEMPTS = 2  # a drill is watched, and tells at once what does not work
NOTIFY_SECONDS = 120.0  # for all notifications
_LOOK_SECONDS = 1.0  # on Windows, a wait without a limit delays signals
WOULD_APPROVE = "approved, as soon as these required hooks have succeeded"
WOULD_APPROVE_AT_ONCE = "approved at once"
WOULD_SIGNAL = "approved by the first live machine that it names, when all of them are ready"


def invent_event(event_type: EventType, machine: str, source: EventSource, now: datetime) -> Event:
    """Return an event of this machine that exists nowhere else."""
    import uuid  # noqa: PLC0415  (imported on use, to keep the agent small)

    return Event(
        id=f"DRILL-{str(uuid.uuid4()).upper()}",
        type=event_type,
        status=EventStatus.SCHEDULED,
        resources=(machine,),
        not_before=now + timedelta(seconds=NOTICE_SECONDS[event_type]),
        source=source,
        description="A drill: this event exists only in `fairwarning agent simulate`.",
    )


def _start(event: Event) -> Event:
    return replace(event, status=EventStatus.STARTED, not_before=None)


# --- Preview --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class EventPreview:
    """The hooks that would run for an event, and the decision if all of them succeed."""

    event: Event
    hooks: tuple[RunHook, ...]
    decision: str


def preview_event(config: AgentConfig, machine: str, event: Event, now: datetime) -> EventPreview:
    """Return what an agent with this configuration would do for an event."""
    plan = AgentPlan(config, machine)
    at_once = plan.read(Document(1, (event,)), now)
    scheduled = _succeed(plan, at_once, now)
    if _has(at_once, SendApproval):
        decision = WOULD_APPROVE_AT_ONCE
    elif _has(scheduled, SendApproval):
        decision = WOULD_APPROVE
    elif _has(scheduled, SignalState):
        decision = WOULD_SIGNAL
    else:
        decision = describe_decision(plan.known[event.id.upper()], config, machine)
    started = _succeed(plan, plan.read(Document(2, (_start(event),)), now), now)
    over = _succeed(plan, plan.read(Document(3), now), now)
    runs = (action for action in (*scheduled, *started, *over) if isinstance(action, RunHook))
    return EventPreview(event, tuple(runs), decision)


def _succeed(plan: AgentPlan, actions: Iterable[Action], now: datetime) -> list[Action]:
    """Return these actions and those that follow when every hook succeeds."""
    pending, every = list(actions), []
    while pending:
        action = pending.pop(0)
        every.append(action)
        if isinstance(action, RunHook):
            pending += plan.done(action.event.id, action.phase, action.hook.name, "", now)
    return every


def _has(actions: Iterable[Action], kind: type[SendApproval | SignalState]) -> bool:
    return any(isinstance(action, kind) for action in actions)


# --- Drill ----------------------------------------------------------------------------------------

Show = Callable[[str], None]


class AgentDrill:
    """Runs the hooks for an invented event: scheduled, started, over."""

    def __init__(self, config: AgentConfig, machine: str, show: Show) -> None:
        """Call `show` with a line for each result."""
        self._config = config
        self._machine = machine
        self._show = show
        self._plan = AgentPlan(config, machine)
        self._ended: queue.SimpleQueue[tuple[Phase, str, str]] = queue.SimpleQueue()
        self._began: dict[tuple[Phase, str], float] = {}
        self._failures = 0

    def run(self, event: Event) -> bool:
        """Run all hooks of the event; return whether all of them and all notices succeeded."""
        os.environ[VARIABLE] = "1"  # for Python functions, which get no payload
        runner = HookRunner(self._machine, self._hook_ended)
        notifier = Notifier(self._config.notify, NOTIFY_ATTEMPTS)
        try:
            for phase, document in (
                (NoticePhase.SCHEDULED, Document(1, (event,))),
                (NoticePhase.STARTED, Document(2, (_start(event),))),
                (NoticePhase.OVER, Document(3)),
            ):
                notifier.send(EventNotice(phase, event, self._machine, drill=True))
                self._run_phase(runner, notifier, event, document)
        finally:
            runner.close()
        self._failures += notifier.close(NOTIFY_SECONDS)
        self._show_notifications()
        return not self._failures

    def _run_phase(
        self, runner: HookRunner, notifier: Notifier, event: Event, document: Document
    ) -> None:
        running = self._perform(runner, self._plan.read(document, _now()))
        while running:
            phase, hook, failed = self._next_result()
            running -= 1
            self._show_result(phase, hook, failed)
            if failed:
                reason = f"hook {hook} failed: {failed}"
                notice = EventNotice(NoticePhase.FAILED, event, self._machine, reason, drill=True)
                notifier.send(notice)
            actions = self._plan.done(event.id, phase, hook, failed, _now())
            running += self._perform(runner, actions)

    def _next_result(self) -> tuple[Phase, str, str]:
        while True:
            try:
                return self._ended.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue

    def _perform(self, runner: HookRunner, actions: Iterable[Action]) -> int:
        """Start the hooks among these actions, each once; return how many."""
        started = 0
        for action in actions:
            if isinstance(action, RunHook):
                key = (action.phase, action.hook.name)
                if key not in self._began:
                    self._began[key] = time.monotonic()
                    runner.run(replace(action, drill=True))
                    started += 1
            elif isinstance(action, SendApproval):
                self._show("scheduled  the event would be approved now; a drill approves nothing")
            elif isinstance(action, SignalState) and action.ready:
                self._show("scheduled  the group would be told that this machine is ready now")
        return started

    def _hook_ended(self, _: str, phase: Phase, hook: str, failed: str) -> None:
        self._ended.put((phase, hook, failed))

    def _show_result(self, phase: Phase, hook: str, failed: str) -> None:
        self._failures += bool(failed)
        seconds = time.monotonic() - self._began[phase, hook]
        result = (
            f"FAILED after {seconds:.1f} s: {failed}" if failed else f"ok after {seconds:.1f} s"
        )
        self._show(f"{phase:9}  hook {hook}: {result}")

    def _show_notifications(self) -> None:
        for settings in self._config.notify:
            sent = agent_metrics.NOTIFICATIONS.value(settings.name, agent_metrics.SENT)
            failed = agent_metrics.NOTIFICATIONS.value(settings.name, agent_metrics.FAILED)
            self._failures += int(failed)
            result = "FAILED" if failed else "ok"
            self._show(f"notify     {settings.name}: {result}, {sent:g} sent, {failed:g} failed")


def _now() -> datetime:
    return datetime.now(timezone.utc)
