"""What stories cost when the journal is long: of an event, an operation, a machine, the fleet."""

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random

from starlette.types import Message

from fairwarning.console.app import ConsoleParts, application
from fairwarning.console.shutdown import ShutdownSignal
from fairwarning.service.config.settings import TENANT
from fairwarning.service.fleet import Fleet
from fairwarning.service.history import queries
from fairwarning.service.history.timeline import timeline
from fairwarning.service.tokens import KEY_BYTES, Principal, Role, Tokens
from fairwarning.service.webhooks.webhooks import WebhookService
from fairwarning.store.sqlite import SQLiteStore
from tests.bench import fleets
from tests.bench.figures import Result, Target
from tests.bench.measure import Stopwatch, percentile
from tests.bench.past import HOT, HOT_MACHINES, SCOPE_LINES, Author, Written
from tests.bench.stage import Stage

STEPS = 2  # a round

_SMALL = 1000  # lines
_LINES = 10  # of the large journal, for each command that a fleet is to have behind it
_HOUR_SECONDS, _WEEK_SECONDS = 3600, 7 * 24 * 3600
_CALLS = 6  # of each question, for each second of a sample
_AT_MOST_MS = 200.0
_MILLI = 1e3
_HOST = "127.0.0.1"


@dataclass(slots=True)
class Answered:
    """What it took to answer a question again and again."""

    seconds: list[float] = field(default_factory=list)  # of each call
    cpu: float = 0.0  # of all of them, in all threads

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds of a call."""
        return self.cpu / len(self.seconds) * _MILLI

    def ms(self, share: float) -> float:
        """The percentile in milliseconds."""
        return percentile(self.seconds, share) * _MILLI


Answers = Mapping[str, tuple[Answered, Answered]]
"""By question: through the service, and through the API."""


def run(stage: Stage) -> Result:
    """Measure."""
    stage.expect(STEPS * stage.effort.rounds)
    large = max(stage.effort.history * _LINES, 2 * _SMALL)
    with fleets.runner() as loop:
        journals = {size: loop.run(_journal(stage.folder, size)) for size in (_SMALL, large)}
        taken: dict[int, Answers] = {
            size: {name: (Answered(), Answered()) for name in questions(journal)}
            for size, journal in journals.items()
        }

        def ask(size: int) -> None:
            loop.run(_ask_all(stage, size, journals[size], taken[size]))

        stage.in_turn({f"{size}": partial(ask, size) for size in journals})
    return Result(
        name="history",
        title="Stories from a long journal",
        about=f"A journal of {large:,} lines in an SQLite file that tells of events from their "
        f"announcement to their end, with every machine told: half of it is about "
        f"{large // SCOPE_LINES:,} scopes, the other half about one, the busiest. Each call asks "
        "about another thing, through the operator's API but for the network, and by functions of "
        "the service alone. CPU is that of all threads, beside that of the same question to a "
        f"journal of {_SMALL:,} lines.",
        rows={name: _row(*taken[large][name], taken[_SMALL][name][1]) for name in taken[large]},
        targets=tuple(
            Target(f"ms at worst, {large:,} lines: {kind}", worst, _AT_MOST_MS, at_least=False)
            for kind, worst in _worst(taken[large]).items()
        ),
    )


def _row(alone: Answered, whole: Answered, small: Answered) -> dict[str, float]:
    return {
        "CPU ms": whole.cpu_ms,
        f"÷ {_SMALL:,} lines": whole.cpu_ms / small.cpu_ms,
        "p50 ms": whole.ms(0.5),
        "worst ms": whole.ms(1),
        "service alone, CPU ms": alone.cpu_ms,
        "its p50 ms": alone.ms(0.5),
        "its worst ms": alone.ms(1),
    }


def _worst(answers: Answers) -> dict[str, float]:
    """By kind of question."""
    found: dict[str, float] = {}
    for name, (_, whole) in answers.items():
        kind = name.partition(",")[0]
        found[kind] = max(found.get(kind, 0.0), whole.ms(1))
    return found


async def _journal(folder: Path, lines: int) -> Written:
    store = SQLiteStore(_path(folder, lines))
    await store.open()
    try:
        return await Author(store, lines).write()
    finally:
        await store.close()


def _path(folder: Path, lines: int) -> Path:
    return folder / f"history-{lines}.db"


async def _ask_all(stage: Stage, lines: int, journal: Written, taken: Answers) -> None:
    chance = Random(lines)
    calls = max(int(stage.effort.seconds * _CALLS), 2)
    store = SQLiteStore(_path(stage.folder, lines))
    async with fleets.serving(store, fleets.Never()) as fleet:
        console = Console(fleet)
        for name, question in questions(journal).items():
            alone, whole = taken[name]
            things = chance.choices(question.things, k=calls)
            await _ask(partial(question.ask, fleet), things, alone)
            await _ask(console.get, [question.path.format(thing) for thing in things], whole)


async def _ask(
    ask: Callable[[str], Awaitable[object]], things: Sequence[str], taken: Answered
) -> None:
    watch = Stopwatch()
    for thing in things:
        began = time.perf_counter()
        await ask(thing)
        taken.seconds.append(time.perf_counter() - began)
    taken.cpu += watch.sample(len(things)).cpu


# --- Questions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Question:
    """Something that people ask, about many things in turn: of the service, and of the API."""

    things: Sequence[str]
    ask: Callable[[Fleet, str], Awaitable[object]]
    path: str


def questions(told: Written) -> dict[str, Question]:
    """All questions, by what they are about."""
    event = partial(Question, ask=queries.explain_event, path="/api/events/{}/explain")
    operation = partial(Question, ask=queries.explain_operation, path="/api/operations/{}/explain")
    machine = partial(Question, ask=queries.explain_machine, path="/api/machines/{}/explain")
    page = partial(Question, ask=_timeline, path="/api/timeline?seconds={}")
    names = [fleets.machine_name(scope, 1) for scope in told.scopes]
    hot = [fleets.machine_name(HOT, number) for number in range(HOT_MACHINES)]
    few = f"scope of {SCOPE_LINES} lines"
    return {
        f"event, old, {few}": event(_first(told.few.events)),
        f"event, recent, {few}": event(_last(told.few.events)),
        f"event, still there, {few}": event(told.live),
        "event, old, busiest scope": event(_first(told.hot.events)),
        "event, recent, busiest scope": event(_last(told.hot.events)),
        "event, still there, busiest scope, before all its lines": event([told.first]),
        f"operation, old, {few}": operation(_first(told.few.operations)),
        f"operation, recent, {few}": operation(_last(told.few.operations)),
        "operation, middle, busiest scope": operation(_middle(told.hot.operations)),
        f"machine, {few}": machine(names),
        "machine, busiest scope": machine(hot),
        "timeline, an hour": page([str(_HOUR_SECONDS)]),
        "timeline, a week": page([str(_WEEK_SECONDS)]),
    }


def _first(names: Sequence[str]) -> Sequence[str]:
    return names[: len(names) // 10 + 1]


def _last(names: Sequence[str]) -> Sequence[str]:
    return names[-(len(names) // 10 + 1) :]


def _middle(names: Sequence[str]) -> Sequence[str]:
    return names[len(names) // 3 : len(names) // 3 * 2 + 1]


async def _timeline(fleet: Fleet, seconds: str) -> object:
    return await timeline(fleet, float(seconds))


async def _no_webhooks() -> WebhookService:
    raise AssertionError


class Console:
    """The operator's API in this process: all of it but the network."""

    def __init__(self, fleet: Fleet) -> None:
        tokens = Tokens(secrets.token_bytes(KEY_BYTES), TENANT)
        token = tokens.access(Principal(name="reader", role=Role.READER))
        self._headers = [
            (b"host", _HOST.encode("ascii")),
            (b"authorization", f"Bearer {token}".encode("ascii")),
        ]
        self._app = application(
            ConsoleParts(
                fleet=fleet,
                metrics=fleet.metrics,
                tokens=tokens,
                webhooks=_no_webhooks,
                closing=ShutdownSignal(fleet),
                key=secrets.token_hex(),
            )
        )

    async def get(self, url: str) -> bytes:
        """What is answered with 200."""
        path, _, query = url.partition("?")
        sent: list[Message] = []
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": "GET",
            "scheme": "http",
            "path": path,
            "raw_path": path.encode("ascii"),
            "query_string": query.encode("ascii"),
            "headers": self._headers,
            "server": (_HOST, 80),
            "client": (_HOST, 1),
        }

        async def receive() -> Message:
            return {"type": "http.request"}

        async def send(message: Message) -> None:
            sent.append(message)

        await self._app(scope, receive, send)
        body = b"".join(message.get("body", b"") for message in sent)
        assert sent[0]["status"] == 200, body
        return body
