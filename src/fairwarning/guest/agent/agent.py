"""The agent itself: reads, decides with `plan`, writes down with `journal`, and acts.

One thread decides. Reading, approving, hooks and the others of a group have threads of their own
and only leave messages, so that none of them ever keeps the reader or another waiting.
"""

import logging
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fairwarning.core.errors import FairwarningError, Refused, Unavailable
from fairwarning.guest.agent.config import AgentConfig
from fairwarning.guest.agent.group import HttpPeers, PeerDirectory, company
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
    utc,
)
from fairwarning.guest.client import ScheduledEvents
from fairwarning.guest.discover import discover
from fairwarning.guest.events import Document, Event
from fairwarning.guest.watch import Phase

if TYPE_CHECKING:
    from fairwarning.guest.agent.health import HealthServer

log = logging.getLogger(__name__)

READ_SECONDS = 30.0  # how long one reading may be held
LOOK_SECONDS = 1.0  # between looks at the others of a group
WELL_SECONDS = 120.0  # without a document for so long, an agent is not well
TICK_SECONDS = 2.0  # between looks at what was approved
_RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class _Read:
    document: Document


@dataclass(frozen=True, slots=True)
class _Ended:
    event: str
    phase: Phase
    hook: str
    failed: str


@dataclass(frozen=True, slots=True)
class _Approved:
    event: str
    gone: bool


@dataclass(frozen=True, slots=True)
class _Looked:
    members: dict[str, GroupMembers]


_Message = _Read | _Ended | _Approved | _Looked


FIGURES = (
    *("readings", "readings_failed", "events_seen"),
    *("hooks_done", "hooks_failed", "approvals"),
)
"""What it counts."""


class Agent:
    """Runs until it is told to stop; starts where the one before it ended."""

    def __init__(self, config: AgentConfig, *, dry: bool = False) -> None:
        """With `dry`, it says what it would do and does nothing."""
        self._config = config
        self._dry = dry
        self._messages: queue.SimpleQueue[_Message | None] = queue.SimpleQueue()
        self._stopped = threading.Event()
        self._figures = Counter(dict.fromkeys(FIGURES, 0))  # seen from the first look on
        self._read_at = time.monotonic()
        self._shared: list[Event] = []
        self._approving: set[str] = set()
        self._company: PeerDirectory | None = None

    # --- Life ---

    def run(self) -> None:
        """Until `stop`. Whatever is configured wrongly is refused before anything runs."""
        self._journal = AgentJournal(self._config.state)
        entries = [] if self._dry else self._journal.open()
        health = self._listen()
        try:
            self._begin(entries)
        finally:
            self._stopped.set()
            self._journal.close()
            if health:
                health.close()

    def _begin(self, entries: Iterable[AgentJournalEntry]) -> None:
        reader = self._found()
        if reader is None:
            return
        name = self._config.name or reader.me()
        self._plan = AgentPlan(self._config, name)
        self._plan.restore(entries)
        if self._config.group is not None and not self._dry:
            self._company = company(self._config.group, name)
        self._hooks = HookRunner(name, self._ended)
        log.info("watching for %s; hooks: %d", name, len(self._config.hooks))
        self._thread("reader", lambda: self._read(reader))
        if self._company is not None:
            self._thread("group", self._look)
        try:
            self._decide()
        finally:
            self._hooks.close()

    def _found(self) -> ScheduledEvents | None:
        """A client of the endpoint, once there is one that knows us; it may come up after us."""
        while not self._stopped.is_set():
            try:
                self._where = discover(self._config.endpoint or None)
                reader = ScheduledEvents(self._where, patience=_RETRY_SECONDS)
                if not self._config.name:
                    reader.me()
            except Unavailable as error:
                log.warning("%s; trying again", error.message)
                self._stopped.wait(_RETRY_SECONDS)
            else:
                return reader
        return None

    def stop(self) -> None:
        """End soon; hooks that run are ended, and run again at the next start."""
        self._stopped.set()
        self._messages.put(None)

    def _listen(self) -> "HealthServer | None":
        if not self._config.listen or self._dry:
            return None
        from fairwarning.guest.agent.health import HealthServer  # noqa: PLC0415  (few have it listen)

        return HealthServer(self._config.listen, self._is_well, self._told, self._is_ready)

    def _thread(self, name: str, work: Callable[[], None]) -> None:
        threading.Thread(target=work, name=name, daemon=True).start()

    # --- Deciding ---

    def _decide(self) -> None:
        first = True
        while True:  # until `stop`; what was told before that is still taken note of
            try:
                message = self._messages.get(timeout=TICK_SECONDS)
            except queue.Empty:
                self._act(self._plan.insist(utc(time.time())))
                continue
            now = utc(time.time())
            match message:
                case None:
                    return
                case _Read(document) if not document.incarnation and self._plan.known:
                    continue  # an empty answer tells nothing of what we know of (IG5)
                case _Read(document) if first:
                    first = False
                    self._act(self._plan.resume(document, now))
                case _Read(document):
                    self._act(self._plan.read(document, now))
                case _Ended(event, phase, hook, failed):
                    self._figures["hooks_failed" if failed else "hooks_done"] += 1
                    self._act(self._plan.done(event, phase, hook, failed, now))
                case _Approved(event, gone):
                    self._figures["approvals"] += not gone
                    self._approving.discard(event.upper())
                    self._act(self._plan.approved(event, now, gone=gone))
                case _Looked(members):
                    self._act(self._plan.tick(members, now))
            self._shared = self._plan.shared()

    def _act(self, actions: Iterable[Action]) -> None:
        for action in actions:
            if self._dry:
                self._pretend(action)
                continue
            match action:
                case WriteNote(entry):
                    self._journal.write(entry)
                    if entry.step == "seen":
                        self._figures["events_seen"] += 1
                    elif entry.step == "forgotten" and self._company is not None:
                        self._company.forget(entry.event)
                case RunHook() | ShortenHook() | StopHook():
                    self._hook(action)
                case SendApproval(event):
                    self._approve(event)
                case SignalReady(event):
                    if self._company is not None:
                        self._company.tell(event)

    def _pretend(self, action: Action) -> None:
        match action:
            case RunHook(hook, phase, event):
                log.info(
                    "would run hook %s, as %s %s is %s", hook.name, event.type, event.id, phase
                )
                self._messages.put(_Ended(event.id, phase, hook.name, ""))
            case SendApproval(event):
                log.info("would approve %s %s", event.type, event.id)
                self._messages.put(_Approved(event.id, gone=False))

    def _hook(self, action: RunHook | ShortenHook | StopHook) -> None:
        match action:
            case RunHook():
                self._hooks.run(action)
            case ShortenHook():
                self._hooks.shorten(action)
            case StopHook():
                self._hooks.stop(action)

    # --- The threads ---

    def _read(self, reader: ScheduledEvents) -> None:
        while not self._stopped.is_set():
            try:
                document = reader.wait(READ_SECONDS)
            except FairwarningError as error:  # never "no events" (IG5)
                log.warning("%s", error.message)
                self._figures["readings_failed"] += 1
                self._stopped.wait(_RETRY_SECONDS)
                continue
            self._figures["readings"] += reader.read_at > self._read_at
            self._read_at = max(self._read_at, reader.read_at)
            self._messages.put(_Read(document))

    def _ended(self, event: str, phase: Phase, hook: str, failed: str) -> None:
        self._messages.put(_Ended(event, phase, hook, failed))

    def _approve(self, event: Event) -> None:
        """In a thread of its own: the endpoint may be away for a while."""
        key = event.id.upper()
        if key in self._approving:
            return
        self._approving.add(key)
        self._thread("approve", lambda: self._insist(event))

    def _insist(self, event: Event) -> None:
        with ScheduledEvents(self._where) as client:
            while not self._stopped.is_set():
                try:
                    client.approve(event)
                except Refused as refused:  # it is over, or the endpoint takes no approval
                    log.warning("event %s is not approved: %s", event.id, refused.message)
                    self._messages.put(_Approved(event.id, gone=True))
                    return
                except FairwarningError as error:
                    log.warning("event %s: %s; trying again", event.id, error.message)
                    self._stopped.wait(_RETRY_SECONDS)
                    continue
                log.info("event %s is approved", event.id)
                self._messages.put(_Approved(event.id, gone=False))
                return

    def _look(self) -> None:
        assert self._company is not None
        while not self._stopped.is_set():
            members: dict[str, GroupMembers] = {}
            try:
                self._company.live()
                for event in self._shared:
                    members[event.id.upper()] = self._company.look(event)
            except (OSError, FairwarningError) as error:
                log.warning("the others of the group: %s", error)
            if members:
                self._messages.put(_Looked(members))
            self._stopped.wait(LOOK_SECONDS)

    # --- What others ask ---

    def _is_well(self) -> bool:
        return time.monotonic() - self._read_at < WELL_SECONDS

    def _told(self) -> dict[str, float]:
        waiting = {"seconds_since_reading": time.monotonic() - self._read_at}
        return {**{name: float(n) for name, n in self._figures.items()}, **waiting}

    def _is_ready(self, event: str) -> bool:
        return isinstance(self._company, HttpPeers) and event.upper() in self._company.ready
