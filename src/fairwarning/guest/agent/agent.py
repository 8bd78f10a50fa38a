"""The agent: reads documents, decides with `plan`, persists with `journal`, and acts.

One thread decides. Reading, approving, running hooks and watching the group have their own threads,
which only send messages, so that none of them blocks another.
"""

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from fairwarning.core.errors import FairwarningError, Refused, Unavailable
from fairwarning.guest.agent.config import AgentConfig
from fairwarning.guest.agent.group import HttpPeers, PeerDirectory, create_peers
from fairwarning.guest.agent.hooks import HookRunner
from fairwarning.guest.agent.journal import AgentJournal
from fairwarning.guest.agent.plan import (
    Action,
    AgentJournalEntry,
    AgentPlan,
    GroupMembers,
    RunHook,
    SendApproval,
    ShortenHook,
    SignalReady,
    StopHook,
    WriteNote,
)
from fairwarning.guest.client import ScheduledEvents
from fairwarning.guest.discover import discover
from fairwarning.guest.events import Document, Event
from fairwarning.guest.watch import Phase

if TYPE_CHECKING:
    from fairwarning.guest.agent.health import HealthServer

log = logging.getLogger(__name__)

READ_SECONDS = 30.0  # the longest wait for a change
GROUP_SECONDS = 1.0  # between queries of the group's members
HEALTHY_SECONDS = 120.0  # an agent without a document for longer is unhealthy
TICK_SECONDS = 2.0  # between checks of pending approvals
FIRST_CONTACT_SECONDS = 300.0  # more than Azure's endpoint takes; then the agent ends
_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _DocumentRead:
    document: Document


@dataclass(frozen=True, slots=True)
class _HookEnded:
    event: str
    phase: Phase
    hook: str
    failed: str


@dataclass(frozen=True, slots=True)
class _ApprovalSent:
    event: str
    gone: bool


@dataclass(frozen=True, slots=True)
class _MembersRead:
    members: dict[str, GroupMembers]


_Message = _DocumentRead | _HookEnded | _ApprovalSent | _MembersRead


METRICS = (
    *("readings", "readings_failed", "events_seen"),
    *("hooks_done", "hooks_failed", "approvals"),
)
"""The names of the agent's counters."""


class Agent:
    """Runs until stopped; continues where the previous process ended."""

    def __init__(self, config: AgentConfig, *, dry: bool = False) -> None:
        """With `dry`, log actions and perform none."""
        self._config = config
        self._dry = dry
        self._messages: queue.SimpleQueue[_Message | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._counters = Counter(dict.fromkeys(METRICS, 0))  # all are exported from the start
        self._read_at = time.monotonic()
        self._give_up_at = time.monotonic() + FIRST_CONTACT_SECONDS
        self._no_contact: FairwarningError | None = None
        self._shared: list[Event] = []
        self._approving: set[str] = set()
        self._peers: PeerDirectory | None = None

    # --- Start and stop ---

    def run(self) -> None:
        """Run until `stop`. Raise `Refused` for a bad configuration before any hook runs.

        Raise the last error if there is no document within `FIRST_CONTACT_SECONDS`.
        """
        self._journal = AgentJournal(self._config.state)
        entries = [] if self._dry else self._journal.open()
        health = self._start_health_server()
        try:
            self._watch(entries)
        finally:
            self._stopped.set()
            self._journal.close()
            if health:
                health.close()

    def _watch(self, entries: Iterable[AgentJournalEntry]) -> None:
        reader = self._connect()
        if reader is None:
            return
        self._reader = reader
        name = self._config.name or reader.me()
        self._plan = AgentPlan(self._config, name)
        self._plan.restore(entries)
        if self._config.group is not None and not self._dry:
            self._peers = create_peers(self._config.group, name)
        self._hooks = HookRunner(name, self._hook_ended)
        log.info("watching for %s; hooks: %d", name, len(self._config.hooks))
        self._start_thread("reader", lambda: self._read_documents(reader))
        if self._peers is not None:
            self._start_thread("group", self._watch_group)
        try:
            self._process_messages()
        finally:
            self._hooks.close()
        if self._no_contact is not None:
            raise self._no_contact

    def _connect(self) -> ScheduledEvents | None:
        """Return a client once the endpoint answers, which may start after the agent."""
        while not self._stopped.is_set():
            try:
                self._endpoint = discover(self._config.endpoint or None)
                reader = ScheduledEvents(self._endpoint, patience=_RETRY_SECONDS)
                if not self._config.name:
                    reader.me()
            except Unavailable as error:
                if time.monotonic() >= self._give_up_at:
                    raise
                log.warning("%s; retrying", error.message)
                self._stopped.wait(_RETRY_SECONDS)
            else:
                return reader
        return None

    def stop(self) -> None:
        """Stop soon. Running hooks are stopped, and run again at the next start."""
        self._stopped.set()
        self._messages.put(None)

    def _start_health_server(self) -> "HealthServer | None":
        if not self._config.listen or self._dry:
            return None
        from fairwarning.guest.agent.health import HealthServer  # noqa: PLC0415  (few agents listen)

        return HealthServer(self._config.listen, self._is_healthy, self._metrics, self._is_ready)

    def _start_thread(self, name: str, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=name, daemon=True).start()

    # --- Deciding ---

    def _process_messages(self) -> None:
        first = True
        while True:  # until `stop`; earlier messages are still processed
            try:
                message = self._messages.get(timeout=TICK_SECONDS)
            except queue.Empty:
                self._perform(self._plan.resend_approvals(self._now()))
                continue
            now = self._now()
            match message:
                case None:
                    return
                case _DocumentRead(document) if not document.incarnation and self._plan.known:
                    continue  # an empty response says nothing about known events (IG5)
                case _DocumentRead(document) if first:
                    first = False
                    self._perform(self._plan.resume(document, now))
                case _DocumentRead(document):
                    self._perform(self._plan.read(document, now))
                case _HookEnded(event, phase, hook, failed):
                    self._counters["hooks_failed" if failed else "hooks_done"] += 1
                    self._perform(self._plan.done(event, phase, hook, failed, now))
                case _ApprovalSent(event, gone):
                    self._counters["approvals"] += not gone
                    self._approving.discard(event.upper())
                    self._perform(self._plan.approved(event, now, gone=gone))
                case _MembersRead(members):
                    self._perform(self._plan.tick(members, now))
            self._shared = self._plan.shared()

    def _perform(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if self._dry:
                self._log_action(action)
                continue
            match action:
                case WriteNote(entry):
                    self._journal.write(entry)
                    if entry.step == "seen":
                        self._counters["events_seen"] += 1
                    elif entry.step == "forgotten" and self._peers is not None:
                        self._peers.forget(entry.event)
                case RunHook() | ShortenHook() | StopHook():
                    self._control_hook(action)
                case SendApproval(event):
                    self._approve(event)
                case SignalReady(event):
                    if self._peers is not None:
                        self._peers.signal_ready(event)

    def _log_action(self, action: Action) -> None:
        match action:
            case RunHook(hook, phase, event):
                log.info(
                    "would run hook %s, as %s %s is %s", hook.name, event.type, event.id, phase
                )
                self._messages.put(_HookEnded(event.id, phase, hook.name, ""))
            case SendApproval(event):
                log.info("would approve %s %s", event.type, event.id)
                self._messages.put(_ApprovalSent(event.id, gone=False))

    def _control_hook(self, action: RunHook | ShortenHook | StopHook) -> None:
        match action:
            case RunHook():
                self._hooks.run(replace(action, deadline=self._by_own_clock(action.deadline)))
            case ShortenHook():
                self._hooks.shorten(replace(action, deadline=self._by_own_clock(action.deadline)))
            case StopHook():
                self._hooks.stop(action)

    def _now(self) -> datetime:
        """Return the endpoint's time, by which NotBefore counts."""
        now = self._reader.now()
        self._own_clock_ahead = datetime.now(UTC) - now
        return now

    def _by_own_clock(self, deadline: datetime) -> datetime:
        """Convert a deadline to the machine's clock, which hooks read.

        The difference is that of the decision, because the endpoint's clock may be moved after it.
        """
        return deadline + self._own_clock_ahead

    # --- Threads ---

    def _read_documents(self, reader: ScheduledEvents) -> None:
        while not self._stopped.is_set():
            try:
                document = reader.wait(READ_SECONDS)
            except FairwarningError as error:  # does not mean "no events" (IG5)
                if reader.read_at < 0 and time.monotonic() >= self._give_up_at:
                    self._no_contact = error
                    self.stop()
                    return
                log.warning("%s", error.message)
                self._counters["readings_failed"] += 1
                self._stopped.wait(_RETRY_SECONDS)
                continue
            self._counters["readings"] += reader.read_at > self._read_at
            self._read_at = max(self._read_at, reader.read_at)
            self._messages.put(_DocumentRead(document))

    def _hook_ended(self, event: str, phase: Phase, hook: str, failed: str) -> None:
        self._messages.put(_HookEnded(event, phase, hook, failed))

    def _approve(self, event: Event) -> None:
        """Approve an event in its own thread, since the endpoint may be unavailable for a while."""
        key = event.id.upper()
        if key in self._approving:
            return
        self._approving.add(key)
        self._start_thread("approve", lambda: self._send_approval(event))

    def _send_approval(self, event: Event) -> None:
        with ScheduledEvents(self._endpoint) as client:
            while not self._stopped.is_set():
                try:
                    client.approve(event, others=True)  # the plan has agreed with them
                except Refused as refused:  # the event is over, or must not be approved
                    log.warning("event %s was not approved: %s", event.id, refused.message)
                    self._messages.put(_ApprovalSent(event.id, gone=True))
                    return
                except FairwarningError as error:
                    log.warning("approving event %s: %s; retrying", event.id, error.message)
                    self._stopped.wait(_RETRY_SECONDS)
                    continue
                log.info("event %s is approved", event.id)
                self._messages.put(_ApprovalSent(event.id, gone=False))
                return

    def _watch_group(self) -> None:
        assert self._peers is not None
        while not self._stopped.is_set():
            members: dict[str, GroupMembers] = {}
            try:
                self._peers.heartbeat()
                for event in self._shared:
                    members[event.id.upper()] = self._peers.members(event)
            except (OSError, FairwarningError) as error:
                log.warning("cannot query the group's members: %s; retrying", error)
            if members:
                self._messages.put(_MembersRead(members))
            self._stopped.wait(GROUP_SECONDS)

    # --- For the health server ---

    def _is_healthy(self) -> bool:
        return time.monotonic() - self._read_at < HEALTHY_SECONDS

    def _metrics(self) -> dict[str, float]:
        age = {"seconds_since_reading": time.monotonic() - self._read_at}
        return {**{name: float(count) for name, count in self._counters.items()}, **age}

    def _is_ready(self, event: str) -> bool:
        return isinstance(self._peers, HttpPeers) and event.upper() in self._peers.ready
