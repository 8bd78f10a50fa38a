"""The agent: reads documents, decides with `plan`, persists with `journal`, and acts.

One thread decides. Reading, approving, running hooks and watching the group have their own threads,
which only send messages, so that none of them blocks another.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING

from fairwarning.core.errors import FairwarningError, Refused
from fairwarning.guest.agent import agent_metrics, system
from fairwarning.guest.agent.actions import (
    Action,
    AgentJournalEntry,
    GroupMembers,
    ReportError,
    RunHook,
    SendApproval,
    ShortenHook,
    SignalState,
    StopHook,
    WriteNote,
    event_key,
)
from fairwarning.guest.agent.agent_metrics import render
from fairwarning.guest.agent.config import AgentConfig
from fairwarning.guest.agent.endpoint_threads import (
    ApprovalSender,
    DocumentReader,
    EndpointContact,
    warn_about_name,
)
from fairwarning.guest.agent.event_state import ApprovalResult, shift
from fairwarning.guest.agent.group import PeerDirectory, create_peers
from fairwarning.guest.agent.heartbeat import LoopControl, WatchdogNotifier
from fairwarning.guest.agent.hook_processes import HookProcesses
from fairwarning.guest.agent.hooks import HookRunner
from fairwarning.guest.agent.journal import AgentJournal
from fairwarning.guest.agent.notices import EventNotice
from fairwarning.guest.agent.plan import AgentPlan
from fairwarning.guest.agent.reporter import EventReporter
from fairwarning.guest.agent.work import to_printable
from fairwarning.guest.events import Document, Event, EventStatus, Phase

if TYPE_CHECKING:
    from fairwarning.guest.agent.health import HealthServer
    from fairwarning.guest.agent.kubernetes import NodeReconciler
    from fairwarning.guest.agent.notify import Notifier

log = logging.getLogger(__name__)

GROUP_SECONDS = 1.0  # between queries of the group's members
HEALTHY_SECONDS = 150.0  # an agent without a document for longer; the first takes up to 130 s
DECIDING_SECONDS = 60.0  # a tick that takes longer hangs; a disk may be slow
TICK_SECONDS = 2.0  # between checks of pending approvals

_Decide = Callable[[datetime], "list[Action]"]
"""A message of another thread: decides, at a time, what follows from it."""


_FIXED = ("endpoint", "name", "state", "listen", "group")  # settings that a reload cannot change


def _boot_event(machine: str) -> Event:
    """Return an invented event for the latest boot of the machine, with the same id until the next.

    Where boots have no id, each start of the agent counts as one.
    """
    name = f"BOOT-{system.boot_id() or int(time.time())}"
    return Event(name, "Boot", EventStatus.STARTED, (machine,), description="The machine booted.")


class Agent:
    """Runs until stopped; continues where the previous process ended."""

    def __init__(
        self,
        config: AgentConfig,
        read_config: Callable[[], AgentConfig] | None = None,
    ) -> None:
        """`read_config` is for `reload`."""
        self._config = config
        self._read_config = read_config or (lambda: config)
        self._contacts: queue.SimpleQueue[EndpointContact | None] = queue.SimpleQueue()
        self._messages: queue.SimpleQueue[_Decide | None] = queue.SimpleQueue()
        self._deciding = LoopControl("deciding", DECIDING_SECONDS)
        self._loops = {name: LoopControl(name) for name in ("reading", "group", "node")}
        self._stopped = threading.Event()  # for threads that end by themselves
        self._documents = DocumentReader(
            config, self._loops["reading"], self._contacts.put, self._document_received
        )
        self._failure: Exception | None = None  # of a thread; ends the agent
        self._shared: list[Event] = []
        self._members: dict[str, GroupMembers] = {}
        self._errors: dict[str, str] = {}  # the last one of each event
        self._notifier: Notifier | None = None
        self._has_answer = False  # an empty response, or a document
        self._has_document = False
        self._peers: PeerDirectory | None = None
        self._node: NodeReconciler | None = None

    # --- Start and stop ---

    def run(self) -> None:
        """Run until `stop`. Raise `Refused` for a bad configuration before any hook runs.

        Raise the error of a thread, such as that of a `DocumentReader` without a first contact.
        """
        self._journal = AgentJournal(self._config.state)
        entries = self._journal.open()
        HookProcesses(self._config.state).end_previous()
        agent_metrics.create_series(self._config)
        health = self._start_health_server()
        self._start_notifier()
        self._watchdog = WatchdogNotifier()
        self._watchdog.send("READY=1\nSTATUS=watching")
        try:
            self._watch(entries)
        finally:
            for stopped in (self._stopped, *self._loops.values()):
                stopped.set()
            if self._notifier:
                self._notifier.close()
            self._journal.close()
            self._watchdog.close()
            if health:
                health.close()

    def _watch(self, entries: Iterable[AgentJournalEntry]) -> None:
        self._start_thread("reader", self._documents.run)
        contact = self._wait_for_contact()
        if contact is not None:
            self._prepare(contact, entries)
            try:
                self._process_messages()
            finally:
                self._hooks.close()
        if self._failure is not None:
            raise self._failure

    def _wait_for_contact(self) -> EndpointContact | None:
        """Return None if the agent is stopped before."""
        while True:
            self._report_progress()
            try:
                return self._contacts.get(timeout=TICK_SECONDS)
            except queue.Empty:  # on Windows, a wait without a timeout delays signals
                continue

    def _prepare(self, contact: EndpointContact, entries: Iterable[AgentJournalEntry]) -> None:
        self._endpoint, self._reader, self._name = contact.endpoint, contact.reader, contact.name
        name = contact.name
        self._plan = AgentPlan(self._config, name)
        self._plan.restore(entries)
        if self._config.group is not None:
            self._peers = create_peers(self._config.group, name)
        self._approvals = ApprovalSender(
            contact.endpoint, self._start_thread, self._approval_answered
        )
        self._hooks = HookRunner(name, self._hook_ended, state=self._config.state)
        self._reporter = EventReporter(self._config, name, self._notify)
        self._reporter.restore(self._plan.known)
        nothing = "; approves nothing" if self._config.approves_nothing else ""
        log.info("watching for %s; hooks: %d%s", name, len(self._config.hooks), nothing)
        self._start_kubernetes()
        if self._peers is not None:
            self._start_thread("group", self._watch_group)

    def stop(self) -> None:
        """Stop soon. Running hooks are stopped, and run again at the next start.

        A signal may interrupt any code, also this: it only puts into queues, which are reentrant.
        """
        self._contacts.put(None)
        self._messages.put(None)

    def reload(self) -> None:
        """Read the configuration again soon, or go on with the old one; for signals too."""
        self._messages.put(self._apply_new_config)

    def _apply_new_config(self, now: datetime) -> list[Action]:
        try:
            config = self._read_config()
            old = self._config
            if fixed := [name for name in _FIXED if getattr(old, name) != getattr(config, name)]:
                text = f"to change {', '.join(fixed)}, restart the agent"
                raise Refused("BadConfig", text)
        except FairwarningError as error:
            text = "the configuration is refused, and the agent goes on with the old one: %s"
            log.error(text, error.message)  # noqa: TRY400  (the message says it all)
            return []
        self._config = config
        self._reporter.reconfigure(config)
        self._try("", partial(agent_metrics.create_series, config))
        self._try("", self._start_notifier)
        self._try("", self._start_kubernetes)
        log.info("the configuration is read again; hooks: %d", len(config.hooks))
        return self._plan.reconfigure(config, now)

    def _start_health_server(self) -> HealthServer | None:
        if not self._config.listen:
            return None
        from fairwarning.guest.agent.health import HealthServer  # noqa: PLC0415  (few agents listen)

        return HealthServer(self._config.listen, self._problem, self._metrics)

    def _start_notifier(self) -> None:
        """Send notices as the configuration says, now or after a reload."""
        if self._notifier is None and self._config.notify:
            from fairwarning.guest.agent.notify import Notifier  # noqa: PLC0415  (few agents notify)

            self._notifier = Notifier()
        if self._notifier is not None:
            self._notifier.reconfigure(self._config.notify)

    def _notify(self, notice: EventNotice) -> None:
        if self._notifier:
            self._notifier.send(notice)

    def _start_kubernetes(self) -> None:
        """Tell the Kubernetes hooks the machine's name, and keep its node if they are used."""
        if any(hook.call for hook in self._config.hooks):  # a function of the user may call ours
            from fairwarning.guest.agent.kubernetes.hooks import set_machine  # noqa: PLC0415  (few agents have such hooks)

            set_machine(self._name)
        if not self._config.uses_kubernetes or self._node is not None:
            return
        from fairwarning.guest.agent.kubernetes import NodeReconciler  # noqa: PLC0415  (few agents are on nodes)

        node = NodeReconciler(self._name)
        self._start_thread("node", lambda: node.run(self._loops["node"]))
        self._node = node  # after the start, which may fail

    def _start_thread(self, name: str, work: Callable[[], None]) -> None:
        def run() -> None:
            try:
                work()
            except Exception as error:  # noqa: BLE001  (`run` raises it: no thread ends unnoticed)
                self._failure = error
                self.stop()

        threading.Thread(target=run, name=name, daemon=True).start()

    # --- Deciding ---

    def _process_messages(self) -> None:
        next_tick = time.monotonic() + TICK_SECONDS
        while True:  # until `stop`; earlier messages are still processed
            self._journal.flush()
            left = next_tick - time.monotonic()
            if left <= 0:  # however many messages there are
                next_tick = time.monotonic() + TICK_SECONDS
                self._report_progress()
                self._act(self._plan.due if self._has_answer else lambda _: [])
                continue
            try:
                decide = self._messages.get(timeout=left)
            except queue.Empty:
                continue
            if decide is None:
                return
            self._act(decide)

    def _act(self, decide: _Decide) -> None:
        """Decide, tell people what was decided, and do it. An error ends neither (IB1)."""
        try:
            actions = decide(self._now())
        except Exception as error:  # noqa: BLE001  (the next message may be processed)
            self._report_error("", error)
            return
        self._try("", self._tell)
        self._perform(actions)

    def _tell(self) -> None:
        for event, failure in self._reporter.update(self._plan.known, self._members):
            self._report_error(event, failure)
        agent_metrics.HOOKS_TO_RETRY.set(self._plan.hooks_to_retry)
        self._shared = self._plan.shared()  # before an event of it is forgotten

    def _try(self, event: str, step: Callable[[], None]) -> None:
        """Take a step that no decision depends on: an error in it is reported, and ends nothing."""
        try:
            step()
        except Exception as error:  # noqa: BLE001  (whatever it is: decided actions are done)
            self._report_error(event, error)

    def _decide_document(self, document: Document, now: datetime) -> list[Action]:
        self._has_answer = True
        if document.assumed and self._plan.known:
            return []  # an empty response says nothing about known events (IG5)
        if self._has_document:
            return self._plan.read(document, now)
        self._has_document = True
        if self._config.name:
            warn = partial(warn_about_name, self._endpoint, self._name)
            self._try("", partial(self._start_thread, "name", warn))
        return self._plan.resume(document, now, _boot_event(self._name))

    def _perform(self, actions: Iterable[Action]) -> None:
        """Do all of it; after an error, only the actions of other events."""
        failed: dict[str, Exception] = {}
        for action in actions:
            key = event_key(action)
            try:
                if key in failed:
                    raise failed[key]
                self._perform_action(action)
            except Exception as error:  # noqa: BLE001  (it concerns this event only)
                failed[key] = error
                self._action_failed(action, error)

    def _perform_action(self, action: Action) -> None:
        if isinstance(action, WriteNote):
            self._write(action.entry)
        elif isinstance(action, RunHook):
            self._reporter.hook_started(action)
            self._hooks.run(replace(action, deadline=self._by_own_clock(action.deadline)))
        elif isinstance(action, ShortenHook):
            self._hooks.shorten(replace(action, deadline=self._by_own_clock(action.deadline)))
        elif isinstance(action, StopHook):
            self._hooks.stop(action)
        elif isinstance(action, SendApproval):
            self._approvals.send(action.event)
        elif isinstance(action, ReportError):
            self._report_error(action.event.id, action.error)
        elif self._peers is not None and isinstance(action, SignalState):
            self._peers.signal(action.event, ready=action.ready)

    def _action_failed(self, action: Action, error: Exception) -> None:
        """Report the error, and to the plan what does not happen because of it."""
        self._report_error(event_key(action), error)
        if isinstance(action, RunHook):
            failed = f"cannot be run: {type(error).__name__}: {error}"
            self._hook_ended(action.event.id, action.phase, action.hook.name, failed)
        elif isinstance(action, SendApproval):
            self._approval_answered(action.event.id, ApprovalResult.FAILED)

    def _report_error(self, event: str, error: Exception) -> None:
        """Count an error, and log it once for each event."""
        agent_metrics.EVENT_ERRORS.add()
        if self._errors.get(event.upper()) != repr(error):
            self._errors[event.upper()] = repr(error)
            text = "event %s: %s; it is tried again, other events are not affected. Report this bug"
            shown = to_printable(event) or "unknown"
            log.error(text, shown, to_printable(repr(error)), exc_info=error)

    def _write(self, entry: AgentJournalEntry) -> None:
        self._journal.write(entry)
        if entry.step == "forgotten":
            self._errors.pop(entry.event, None)
            if entry.failed:
                log.warning("hooks of event %s are given up: %s", entry.event, entry.failed)
        if entry.step in {"over", "forgotten"} and self._peers is not None:
            self._peers.forget(entry.event)  # it may come back, and is not prepared then

    def _now(self) -> datetime:
        """Return the endpoint's time, by which NotBefore counts."""
        now = self._reader.now()
        self._own_clock_ahead = datetime.now(timezone.utc) - now
        return now

    def _by_own_clock(self, deadline: datetime) -> datetime:
        """Convert a deadline to the machine's clock, which hooks read.

        The difference is that of the decision, because the endpoint's clock may be moved after it.
        """
        return shift(deadline, self._own_clock_ahead)

    # --- Messages of other threads ---

    def _document_received(self, document: Document, read_at: float) -> None:
        def decide(now: datetime) -> list[Action]:
            if self._node is not None and not document.assumed:
                observe = partial(self._node.observe, document, read_at)
                self._try("", observe)  # before its hooks begin
            return self._decide_document(document, now)

        self._messages.put(decide)

    def _hook_ended(self, event: str, phase: Phase, hook: str, failed: str) -> None:
        def decide(now: datetime) -> list[Action]:
            tracked = self._plan.known.get(event.upper())
            known = tracked.event if tracked else None
            self._try(event, partial(self._reporter.hook_ended, known, phase, hook, failed))
            return self._plan.done(event, phase, hook, failed, now)

        self._messages.put(decide)

    def _approval_answered(self, event: str, result: ApprovalResult) -> None:
        def decide(now: datetime) -> list[Action]:
            agent_metrics.APPROVALS.add(str(result))
            self._approvals.answered(event)
            return self._plan.approved(event, now, result)

        self._messages.put(decide)

    def _members_read(self, members: dict[str, GroupMembers]) -> None:
        def decide(now: datetime) -> list[Action]:
            self._members = members
            return self._plan.tick(members, now)

        self._messages.put(decide)

    def _watch_group(self) -> None:
        assert self._peers is not None
        reported = ""
        stopped = self._loops["group"]
        while not stopped.is_set():
            members: dict[str, GroupMembers] = {}
            errors = self._look_at_group(self._peers, members)
            if errors and errors[0] != reported:
                log.warning("cannot query the group's members: %s; retrying", errors[0])
            elif reported and not errors:
                log.info("the group's members can be queried again")
            reported = errors[0] if errors else ""
            if members:
                self._members_read(members)
            stopped.wait(GROUP_SECONDS)

    def _look_at_group(self, peers: PeerDirectory, members: dict[str, GroupMembers]) -> list[str]:
        """Fill in the members of each shared event; return what failed. The next is in a second."""
        errors: list[str] = []
        steps: list[tuple[str, Callable[[], GroupMembers | None]]] = [("", peers.heartbeat)]
        steps += [(event.id.upper(), partial(peers.members, event)) for event in self._shared]
        for key, step in steps:
            if self._loops["group"].is_set():  # a step may take seconds
                break
            try:
                if (answer := step()) is not None:
                    members[key] = answer
            except Exception as error:  # noqa: BLE001  (it concerns this step only)
                errors.append(str(error) or type(error).__name__)
        return errors

    # --- For the health server and the service manager ---

    def _report_progress(self) -> None:
        """Feed the watchdog if every loop makes progress; this is the deciding loop."""
        self._deciding.is_set()
        problems = [problem for loop in self._loops.values() if (problem := loop.problem())]
        if problems:
            self._watchdog.send(f"STATUS={problems[0]}")
        else:
            self._watchdog.send("READY=1\nWATCHDOG=1")  # the first message may have been lost

    def _problem(self) -> str:
        for loop in (self._deciding, *self._loops.values()):
            if problem := loop.problem():
                return problem
        if time.monotonic() - self._documents.read_at >= HEALTHY_SECONDS:
            return "no document lately"
        return self._hooks.problem() if self._has_answer else ""

    def _metrics(self) -> str:
        if self._has_document:
            left = agent_metrics.seconds_to_next(self._reporter.events, self._reader.now())
            agent_metrics.NEXT_EVENT.set(left)
        agent_metrics.JOURNAL_FAILING.set(self._journal.failing)
        return render(agent_metrics.FAMILIES)
