"""The cost of explanations with a long journal: event, operation, machine, fleet."""

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from fairwarning.console.api.section import ConsoleParts
from fairwarning.console.app import application
from fairwarning.console.shutdown import ShutdownSignal
from fairwarning.core import cascade
from fairwarning.core.commands import (
    Approve,
    Command,
    CreateScope,
    Degrade,
    Poll,
    RecordDelivery,
    ReportImpact,
    Restart,
)
from fairwarning.core.model import Entity, Operation, Ref, Scope, ScopeKind
from fairwarning.service.config.settings import TENANT
from fairwarning.service.fleet import Fleet
from fairwarning.service.issued_tokens import IssuedTokens
from fairwarning.service.tokens import KEY_BYTES, Principal, Role, Tokens
from fairwarning.service.webhooks.webhooks import WebhookService
from fairwarning.service.writer.batch import CommandBatch, size_of
from fairwarning.store.sqlite import SQLiteStore
from tests.bench import fleets
from tests.bench.context import BenchmarkContext
from tests.bench.figures import Result, Target, described
from tests.bench.measure import Stopwatch, percentile
from tests.fixtures.http import LOOPBACK, asgi_request, asgi_scope
from tests.fixtures.tokens import sign_token

SCOPE_LINES = 100  # lines per scope
HOT = "hot"  # the scope with half of all lines
HOT_MACHINES = 100

_MACHINES = 2  # of any other scope
_LIVE = 50  # one scope in this many has an open event
_SPAN_SECONDS = 20 * 3600  # of the history: less than a day, so that no scope is disabled
_WEEK_SECONDS = 7 * 24 * 3600
_BATCH = 20_000  # lines per transaction
_SMALL = 1000  # lines
_LINES = 10  # of the large journal, per command of history
_CALLS = 6  # of each question, per second of a sample
_AT_MOST_MS = 200.0
_MILLI = 1e3


@dataclass(slots=True)
class EndedEvents:
    """Ended events and their operations, oldest first."""

    events: list[str] = field(default_factory=list)
    operations: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Written:
    """The contents of a journal."""

    scopes: list[str]
    few: EndedEvents = field(default_factory=EndedEvents)  # in scopes with few lines
    hot: EndedEvents = field(default_factory=EndedEvents)
    live: list[str] = field(default_factory=list)  # open events
    first: str = ""  # the open event that was announced first, in the hot scope


@dataclass(slots=True)
class Answered:
    """The time to answer a question repeatedly."""

    seconds: list[float] = field(default_factory=list)  # of each call
    cpu: float = 0.0  # of all of them, in all threads

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds per call."""
        return self.cpu / len(self.seconds) * _MILLI

    def ms(self, share: float) -> float:
        """The percentile in milliseconds."""
        return percentile(self.seconds, share) * _MILLI


def run(context: BenchmarkContext) -> Result:
    """Measure."""
    large = max(context.effort.history * _LINES, 2 * _SMALL)
    with fleets.runner() as loop:
        journals = {size: loop.run(_journal(context.folder, size)) for size in (_SMALL, large)}
        taken = {
            size: {name: Answered() for name in questions(journal)}
            for size, journal in journals.items()
        }

        def ask(size: int) -> None:
            loop.run(_ask_all(context, size, journals[size], taken[size]))

        context.in_turn({f"{size}": partial(ask, size) for size in journals})
    return Result(
        *described("history", lines=large, scopes=large // SCOPE_LINES, small=_SMALL),
        rows={name: _row(taken[large][name], taken[_SMALL][name]) for name in taken[large]},
        targets=tuple(
            Target(f"ms at worst, {large:,} lines: {kind}", worst, _AT_MOST_MS, at_least=False)
            for kind, worst in _worst(taken[large]).items()
        ),
    )


def _row(large: Answered, small: Answered) -> dict[str, float]:
    return {
        "CPU ms": large.cpu_ms,
        f"÷ {_SMALL:,} lines": large.cpu_ms / small.cpu_ms,
        "p50 ms": large.ms(0.5),
        "worst ms": large.ms(1),
    }


def _worst(answers: Mapping[str, Answered]) -> dict[str, float]:
    """By kind of question."""
    worst: dict[str, float] = {}
    for name, answered in answers.items():
        kind = name.partition(",")[0]
        worst[kind] = max(worst.get(kind, 0.0), answered.ms(1))
    return worst


async def _journal(folder: Path, lines: int) -> Written:
    store = SQLiteStore(_path(folder, lines))
    await store.open()
    try:
        return await HistoryWriter(store, lines).write()
    finally:
        await store.close()


def _path(folder: Path, lines: int) -> Path:
    return folder / f"history-{lines}.db"


async def _ask_all(
    context: BenchmarkContext, lines: int, journal: Written, taken: Mapping[str, Answered]
) -> None:
    random = Random(lines)
    calls = max(int(context.effort.seconds * _CALLS), 2)
    store = SQLiteStore(_path(context.folder, lines))
    async with fleets.serving(store, fleets.Never()) as fleet:
        console = Console(fleet)
        for name, (path, subjects) in questions(journal).items():
            watch = Stopwatch()
            for subject in random.choices(subjects, k=calls):
                began = time.perf_counter()
                await console.get(path.format(subject))
                taken[name].seconds.append(time.perf_counter() - began)
            taken[name].cpu += watch.sample(calls).cpu


# --- Questions ------------------------------------------------------------------------------------


def questions(journal: Written) -> dict[str, tuple[str, Sequence[str]]]:
    """All questions: a path, and the subjects to ask about in turn."""
    event, operation, machine = (
        f"/api/{kind}/{{}}/explain" for kind in ("events", "operations", "machines")
    )
    names = [fleets.machine_name(scope, 1) for scope in journal.scopes]
    hot = [fleets.machine_name(HOT, number) for number in range(HOT_MACHINES)]
    few = f"scope of {SCOPE_LINES} lines"
    return {
        f"event, old, {few}": (event, _first(journal.few.events)),
        f"event, recent, {few}": (event, _last(journal.few.events)),
        f"event, still there, {few}": (event, journal.live),
        "event, old, busiest scope": (event, _first(journal.hot.events)),
        "event, recent, busiest scope": (event, _last(journal.hot.events)),
        "event, still there, busiest scope, before all its lines": (event, [journal.first]),
        f"operation, old, {few}": (operation, _first(journal.few.operations)),
        f"operation, recent, {few}": (operation, _last(journal.few.operations)),
        "operation, middle, busiest scope": (operation, _middle(journal.hot.operations)),
        f"machine, {few}": (machine, names),
        "machine, busiest scope": (machine, hot),
    }


def _first(names: Sequence[str]) -> Sequence[str]:
    return names[: len(names) // 10 + 1]


def _last(names: Sequence[str]) -> Sequence[str]:
    return names[-(len(names) // 10 + 1) :]


def _middle(names: Sequence[str]) -> Sequence[str]:
    return names[len(names) // 3 : len(names) // 3 * 2 + 1]


async def _no_webhooks() -> WebhookService:
    raise AssertionError


class Console:
    """The operator's API in this process, without the network."""

    def __init__(self, fleet: Fleet) -> None:
        tokens = Tokens(secrets.token_bytes(KEY_BYTES), TENANT)
        token = sign_token(tokens, Principal(name="reader", role=Role.READER))
        self._headers = {"host": LOOPBACK, "authorization": f"Bearer {token}"}.items()
        self._app = application(
            ConsoleParts(
                fleet=fleet,
                metrics=fleet.metrics,
                tokens=IssuedTokens(tokens, fleet),
                webhooks=_no_webhooks,
                closing=ShutdownSignal(fleet),
                key=secrets.token_hex(),
            )
        )

    async def get(self, url: str) -> bytes:
        """GET a URL; return the body of a 200 response."""
        response = await asgi_request(self._app, asgi_scope("GET", url, self._headers))
        assert response.status == 200, response.body
        return response.body


# --- The history: events as the core decides them, written in large batches -----------------------


class HistoryWriter:
    """Lets the core decide each command, and commits many decisions at once."""

    def __init__(self, store: SQLiteStore, lines: int) -> None:
        self._store = store
        self._lines = lines
        self._written = 0
        self._entities: dict[Ref, Entity | None] = {}
        self._work = CommandBatch()

    async def write(self) -> Written:
        """Write a journal of at least this many lines."""
        written = Written(fleets.scope_names(self._lines // SCOPE_LINES))
        for name in written.scopes:
            self._create(name, _MACHINES)
        self._create(HOT, HOT_MACHINES)
        written.first = self._degrade(HOT)
        written.live = [self._degrade(name) for name in written.scopes[::_LIVE]]
        hot, turn, rest = 0, 0, self._written
        while self._written < self._lines:
            before = self._written
            if hot <= (before - rest) // 2:
                machine = 1 + len(written.hot.events) % (HOT_MACHINES - 1)
                self._write_event(written.hot, HOT, machine, HOT_MACHINES)
                hot += self._written - before
            else:
                self._write_event(
                    written.few, written.scopes[turn % len(written.scopes)], 1, _MACHINES
                )
                turn += 1
            if len(self._work.lines) > _BATCH:
                await self._commit()
        await self._commit()
        return written

    def _create(self, scope: str, machines: int) -> None:
        members = tuple(fleets.machine(scope, number) for number in range(machines))
        self._do(CreateScope(scope=scope, kind=ScopeKind.AVAILABILITY_SET, machines=members))
        self._do(Poll(scope=scope, actor="machine"))

    def _degrade(self, scope: str) -> str:
        """Announce a failure of the first machine in a week; return the event."""
        name, operation = fleets.machine_name(scope, 0), f"degrade-{scope}"
        week = int(self._now()) + _WEEK_SECONDS
        self._do(Degrade(scope=scope, operation=operation, machines=(name,), not_before=week))
        event = self._newest_event(scope)
        self._do(RecordDelivery(scope=scope, event=event, machines=(name,), actor="machine"))
        return event

    def _write_event(self, ended: EndedEvents, scope: str, machine: int, machines: int) -> None:
        """Write an event from the restart to its end, with a delivery to every machine."""
        name, operation = fleets.machine_name(scope, machine), f"restart-{self._written}"
        self._do(Restart(scope=scope, operation=operation, machines=(name,)))
        event = self._newest_event(scope)
        for reader in (fleets.machine_name(scope, number) for number in range(machines)):
            self._do(RecordDelivery(scope=scope, event=event, machines=(reader,), actor="machine"))
        (impact,) = self._do(Approve(scope=scope, events=(event,), actor=name)).impacts
        self._do(ReportImpact(scope=scope, machine=name, impact=impact.id))
        del self._entities[Operation, operation]
        ended.events.append(event)
        ended.operations.append(operation)

    def _newest_event(self, name: str) -> str:
        scope = self._entities[Scope, name]
        assert isinstance(scope, Scope)
        return list(scope.events)[-1]

    def _now(self) -> float:
        """The time of the next command, evenly spread and never in the future."""
        return time.time() - max(1 - self._written / self._lines, 0.0) * _SPAN_SECONDS

    def _do(self, command: Command) -> cascade.Outcome:
        outcome = cascade.run(command, self._now(), self._entities.get)
        self._entities.update({ref: after for ref, (_, after) in outcome.changes.items()})
        self._work.add(outcome, size_of(outcome))
        self._written += len(outcome.lines)
        return outcome

    async def _commit(self) -> None:
        await self._store.commit(self._work.batch(self._now(), {}))
        self._work = CommandBatch()
