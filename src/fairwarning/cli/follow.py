"""Watching and waiting: shows something anew whenever the service's stream says that it changed."""

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import click

from fairwarning.cli import client, options, show
from fairwarning.cli.blocks import Block, ProgressBar
from fairwarning.cli.client import StreamMessage
from fairwarning.cli.show import Json
from fairwarning.core.errors import FairwarningError
from fairwarning.core.times import parse_date

Value = TypeVar("Value")

_TICK_SECONDS = 1.0  # how often a time that is left is shown anew
_GATHER_SECONDS = 0.2  # changes come in bursts; the whole burst is shown at once
_PENDING = 5  # events whose state is shown while one waits


class ServiceTime(NamedTuple):
    """The service's time at one moment."""

    at: float
    still: bool  # it does not pass by itself


class ServiceClock:
    """The service's time, without asking for it each second."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.read()

    def read(self) -> None:
        """Somebody may have moved it."""
        clock = client.ask(self._folder, "GET", "/api/clock")
        self._at, self._rate = parse_date(clock["now"]), float(clock["rate"])
        self._read_at = time.monotonic()

    def now(self) -> ServiceTime:
        """What it is by now."""
        passed = (time.monotonic() - self._read_at) * self._rate
        return ServiceTime(self._at + passed, still=not self._rate)


class EventStream:
    """The stream, read beside us: a screen goes on while nothing comes."""

    def __init__(self, folder: Path) -> None:
        self._arrived: queue.SimpleQueue[StreamMessage | FairwarningError] = queue.SimpleQueue()
        after = client.newest(folder)  # now, so that nothing falls between reading and following
        threading.Thread(target=self._follow, args=(folder, after), daemon=True).start()

    def _follow(self, folder: Path, after: int) -> None:
        try:
            for message in client.stream(folder, after):
                self._arrived.put(message)
        except FairwarningError as error:
            self._arrived.put(error)

    def take(self, seconds: float | None) -> list[StreamMessage]:
        """What has come, once something has; nothing after so many seconds."""
        found: list[StreamMessage] = []
        try:
            self._add(found, self._arrived.get(timeout=seconds))
            time.sleep(_GATHER_SECONDS)
            while True:
                self._add(found, self._arrived.get_nowait())
        except queue.Empty:
            return found

    @staticmethod
    def _add(found: list[StreamMessage], one: StreamMessage | FairwarningError) -> None:
        if isinstance(one, FairwarningError):
            raise one
        found.append(one)


class LiveDisplay(Protocol):
    """Where a value is shown as it changes."""

    ticks: bool

    def show(self, blocks: Sequence[Block]) -> None: ...


class _NoDisplay:
    """Nobody looks on."""

    ticks = False

    def show(self, blocks: Sequence[Block]) -> None:
        """Not at all."""


@contextmanager
def _screen(*, silent: bool) -> Iterator[LiveDisplay]:
    if silent:
        yield _NoDisplay()
        return
    from fairwarning.cli import drawing  # noqa: PLC0415  (rich takes its time)

    with drawing.TerminalDisplay() as screen:
        yield screen


def follow(
    folder: Path,
    read: Callable[[], Value],
    blocks: Callable[[Value, ServiceTime], Sequence[Block]],
    *,
    over: Callable[[Value], bool] = lambda _: False,
    concerns: Callable[[Json], bool] = lambda _: True,
    silent: bool = False,
) -> Value:
    """Show what `read` gives, and again at each change that concerns it, until it is over."""
    changes, clock = EventStream(folder), ServiceClock(folder)
    with _screen(silent=silent) as screen:
        value = read()
        screen.show(blocks(value, clock.now()))
        while not over(value):
            found = changes.take(_TICK_SECONDS if screen.ticks else None)
            if any(message.name == "clock" or concerns(message.data) for message in found):
                value = client.retry_while_down(read)
                client.retry_while_down(clock.read)
            screen.show(blocks(value, clock.now()))
        return value


def watch(
    folder: Path,
    read: Callable[[], Value],
    blocks: Callable[[Value, ServiceTime], Sequence[Block]],
    *,
    as_json: bool,
    over: Callable[[Value], bool] = lambda _: False,
) -> None:
    """The same for who only looks: Ctrl-C is a good end. A JSON line for each change."""
    last: list[Value] = []

    def lines(value: Value, _: ServiceTime) -> Sequence[Block]:
        if last != [value]:
            last[:] = [value]
            click.echo(json.dumps(value))
        return ()

    try:
        follow(folder, read, lines if as_json else blocks, over=over, silent=as_json)
    except KeyboardInterrupt:
        return


def listing(
    folder: Path,
    what: str,
    table: Callable[[list[Json]], Sequence[Block]],
    *,
    as_json: bool,
    watch_: bool,
    **query: str | None,
) -> None:
    """A list of the service, once or as it changes."""
    most = None if as_json else show.ASKED

    def read() -> list[Json]:
        return client.listed(folder, what, most, **query)

    if watch_:
        watch(folder, read, lambda found, _: table(found), as_json=as_json)
    else:
        found = read()
        show.print_result(found, *([] if as_json else table(found)), as_json=as_json)


# --- Operations ----------------------------------------------------------------------------------


def accepted(
    folder: Path, answers: Sequence[Json], *, as_json: bool, wait: bool, single: bool = False
) -> None:
    """Tell scripts of what was accepted; with `wait`, everybody of how it ended."""
    if wait:
        events = [event for answer in answers for event in answer["events"]]
        begun = [answer["operation"] for answer in answers]
        ended = until_over(folder, begun, events, silent=as_json)
        answers = [one | {"operation": over} for one, over in zip(answers, ended, strict=True)]
    if as_json:
        click.echo(json.dumps(answers[0] if single else list(answers)))
    if wait:
        print_end([answer["operation"] for answer in answers], silent=as_json)


def until_over(
    folder: Path, operations: Sequence[Json], events: Sequence[Json], *, silent: bool
) -> list[Json]:
    """The operations once all are over, with a bar meanwhile; Ctrl-C leaves them running."""
    known = {one["id"]: one for one in operations}
    live = {one["id"]: one for one in events}

    def read() -> tuple[list[Json], list[Json]]:
        for name in [name for name, one in known.items() if _running(one)]:
            known[name] = client.ask(folder, "GET", f"/api/operations/{client.part(name)}")
        for name in list(live)[:_PENDING]:
            live[name] = client.ask(folder, "GET", f"/api/events/{client.part(name)}")
            if live[name]["status"] == "Over":
                del live[name]
        return list(known.values()), list(live.values())

    try:
        ended, _ = follow(
            folder,
            read,
            lambda value, now: _progress(*value, now),
            over=lambda value: not any(map(_running, value[0])),
            concerns=lambda line: line["operation"] in known,
            silent=silent,
        )
    except KeyboardInterrupt:
        click.echo("It goes on without you. See how far it is with", err=True)
        for name in known:
            click.echo(f"  fairwarning operation show {name} --wait", err=True)
        raise SystemExit(options.FAILED) from None
    return ended


def _running(operation: Json) -> bool:
    return bool(operation["status"] == "InProgress")


def _progress(operations: Sequence[Json], events: Sequence[Json], now: ServiceTime) -> list[Block]:
    def count(what: str) -> int:
        return sum(one[what] for one in operations)

    over = count("done") + count("failed") + count("cancelled")
    planned = max(count("planned"), over)
    if not any(map(_running, operations)):
        over = planned = max(planned, 1)
    text = f"{count('done')} of {planned} done" if count("planned") else "under way"
    text += "".join(f", {count(what)} {what}" for what in ("failed", "cancelled") if count(what))
    kinds = ", ".join(dict.fromkeys(one["kind"] for one in operations))
    blocks: list[Block] = [ProgressBar(over, planned, f"{kinds}: {text}")]
    waiting = any(map(_running, operations))
    return blocks + show.pending(events, now.at) + still(now, waiting=waiting)


def still(now: ServiceTime, *, waiting: bool) -> list[Block]:
    """A hint for who waits for a time that does not pass."""
    if not (now.still and waiting):
        return []
    return ["  Time stands still; `fairwarning clock advance 15m` lets it pass."]


def print_end(operations: Sequence[Json], *, silent: bool) -> None:
    """Exit with 1 unless all have succeeded, and say why."""
    failed = [one for one in operations if one["status"] != "Succeeded"]
    if not silent:
        for one in failed:
            why = f": {one['error']}" if one["error"] else ""
            click.echo(f"Error: {one['kind']} {one['id']} {one['status'].lower()}{why}", err=True)
    if failed:
        raise SystemExit(options.FAILED)
