"""Watching and waiting: refreshes a display whenever the service's stream reports a change."""

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import click

from fairwarning.cli.connection import client
from fairwarning.cli.connection.client import StreamMessage
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.output import errors, show
from fairwarning.cli.output.blocks import Block, ProgressBar
from fairwarning.cli.output.show import Json
from fairwarning.core.printable import printable
from fairwarning.core.times import parse_date

Value = TypeVar("Value")

_TICK_SECONDS = 1.0  # between two refreshes of the remaining time
_GATHER_SECONDS = 0.2  # changes come in bursts; show a whole burst at once
_PENDING = 5  # events shown while waiting


class ServiceTime(NamedTuple):
    """The service's time at one moment."""

    at: float
    stopped: bool  # a virtual clock that is not running


class ServiceClock:
    """The service's time, extrapolated from the last reading."""

    def __init__(self, service: ServiceTarget) -> None:
        self._service = service
        self.read()

    def read(self) -> None:
        """Read the clock from the service."""
        clock = client.ask(self._service, "GET", "/api/clock")
        self._at, self._rate = parse_date(clock["now"]), float(clock["rate"])
        self._read_at = time.monotonic()

    def now(self) -> ServiceTime:
        """Return the current time of the service."""
        passed = (time.monotonic() - self._read_at) * self._rate
        return ServiceTime(self._at + passed, stopped=not self._rate)


class EventStream:
    """Reads the stream in a thread, so that the display can refresh while no message arrives."""

    def __init__(self, service: ServiceTarget) -> None:
        self.connected = True
        self._queue: queue.SimpleQueue[StreamMessage | Exception] = queue.SimpleQueue()
        after = client.newest(service)  # before the caller reads, so that no change is missed
        threading.Thread(target=self._follow, args=(service, after), daemon=True).start()

    def _follow(self, service: ServiceTarget, after: int) -> None:
        try:
            for message in client.stream(service, after):
                if message.name in {client.LOST, client.BACK}:
                    self._report(message)
                self._queue.put(message)
        except Exception as error:  # noqa: BLE001  (`take` raises it: the display must not hang)
            self._queue.put(error)

    def _report(self, message: StreamMessage) -> None:
        """Tell the user at once, also while a request waits for the service."""
        self.connected = message.name == client.BACK
        if self.connected:
            click.echo("Connected to the service again.", err=True)
        else:
            at = time.strftime("%H:%M:%SZ", time.gmtime(message.data["at"]))
            click.echo(f"Connection lost. The last data is from {at}; trying again.", err=True)

    def take(self, seconds: float | None) -> list[StreamMessage]:
        """Wait for messages and return them; return an empty list after `seconds`.

        An endless wait is cut into short ones: a signal that arrives right before a wait does not
        end it, and Ctrl-C would have no effect.
        """
        while not (messages := self._gather(seconds or _TICK_SECONDS)) and seconds is None:
            pass
        return messages

    def _gather(self, seconds: float) -> list[StreamMessage]:
        messages: list[StreamMessage] = []
        try:
            self._add(messages, self._queue.get(timeout=seconds))
            time.sleep(_GATHER_SECONDS)
            while True:
                self._add(messages, self._queue.get_nowait())
        except queue.Empty:
            return messages

    @staticmethod
    def _add(messages: list[StreamMessage], item: StreamMessage | Exception) -> None:
        if isinstance(item, Exception):
            raise item
        messages.append(item)


def is_redrawn() -> bool:
    """Return whether stdout is a terminal that can show a new text in place of the last one."""
    return sys.stdout.isatty() and os.environ.get("TERM") not in {"dumb", "unknown"}


@contextmanager
def display(*, silent: bool, progress: bool) -> Iterator[Callable[[Sequence[Block]], None]]:
    """Provide a function that shows blocks: on a terminal in place, else one version after another.

    Progress goes to stderr unless it is redrawn in place.
    """
    if silent:
        yield lambda _: None
    elif is_redrawn():
        from fairwarning.cli.output import terminal  # noqa: PLC0415  (rich is slow to import)

        with terminal.live_display() as show_blocks:
            yield show_blocks
    else:
        last: list[Sequence[Block]] = []

        def print_version(blocks: Sequence[Block]) -> None:
            if last != [blocks]:
                last[:] = [blocks]
                show.print_lines(blocks, err=progress)

        yield print_version


def follow(
    service: ServiceTarget,
    read: Callable[[], Value],
    blocks: Callable[[Value, ServiceTime], Sequence[Block]],
    *,
    over: Callable[[Value], bool] = lambda _: False,
    concerns: Callable[[Json], bool] = lambda _: True,
    silent: bool = False,
    progress: bool = True,
) -> Value:
    """Show the value of `read`, refresh it at each change that concerns it, until it is over.

    It is either progress, for people, or what the command is to print.
    """
    stream, clock = EventStream(service), ServiceClock(service)
    ticks = is_redrawn() and not silent  # the remaining time counts down
    with display(silent=silent, progress=progress) as show_blocks:
        value, now = read(), clock.now()
        while True:
            now = clock.now() if stream.connected else now
            show_blocks(blocks(value, now))
            if over(value):
                return value
            messages = stream.take(_TICK_SECONDS if ticks else None)
            if any(message.name != client.LINE or concerns(message.data) for message in messages):
                value = client.retry_while_down(read)
                client.retry_while_down(clock.read)


def watch(
    service: ServiceTarget,
    read: Callable[[], Value],
    blocks: Callable[[Value, ServiceTime], Sequence[Block]],
    *,
    as_json: bool,
    over: Callable[[Value], bool] = lambda _: False,
) -> None:
    """Follow a value until Ctrl-C, which is a success; with `as_json`, print a line per change."""
    last: list[Value] = []

    def lines(value: Value, _: ServiceTime) -> Sequence[Block]:
        if last != [value]:
            last[:] = [value]
            click.echo(json.dumps(value))
        return ()

    try:
        shown = lines if as_json else blocks
        follow(service, read, shown, over=over, silent=as_json, progress=False)
    except KeyboardInterrupt:
        return


# --- Operations ----------------------------------------------------------------------------------


def accepted(
    service: ServiceTarget,
    answers: Sequence[Json],
    *,
    as_json: bool,
    wait: bool,
    single: bool = False,
) -> None:
    """Print the accepted operations as JSON; with `wait`, wait for them and report failures."""
    if wait:
        events = [event for answer in answers for event in answer["events"]]
        operations = [answer["operation"] for answer in answers]
        ended = wait_for_end(service, operations, events, silent=as_json)
        answers = [
            answer | {"operation": operation}
            for answer, operation in zip(answers, ended, strict=True)
        ]
    if as_json:
        click.echo(json.dumps(answers[0] if single else list(answers)))
    if wait:
        exit_if_failed([answer["operation"] for answer in answers], silent=as_json)


def wait_for_end(
    service: ServiceTarget, operations: Sequence[Json], events: Sequence[Json], *, silent: bool
) -> list[Json]:
    """Return the operations once all have ended; show progress. Ctrl-C leaves them running."""
    operations_by_id = {operation["id"]: operation for operation in operations}
    active = {event["id"]: event for event in events}

    def read() -> tuple[list[Json], list[Json]]:
        for id_ in [id_ for id_, operation in operations_by_id.items() if _running(operation)]:
            path = client.api_path("operations", id_)
            operations_by_id[id_] = client.ask(service, "GET", path)
        for id_ in list(active)[:_PENDING]:
            active[id_] = client.ask(service, "GET", client.api_path("events", id_))
            if active[id_]["status"] == "Over":
                del active[id_]
        return list(operations_by_id.values()), list(active.values())

    try:
        ended, _ = follow(
            service,
            read,
            lambda value, now: _progress(service, *value, now),
            over=lambda value: not any(map(_running, value[0])),
            concerns=lambda line: line["operation"] in operations_by_id,
            silent=silent,
        )
    except KeyboardInterrupt:
        click.echo("Stopped waiting; the operation continues. To wait again, run:", err=True)
        for id_ in operations_by_id:
            click.echo(f"  {service.command_line('operation show --wait', id_)}", err=True)
        raise SystemExit(errors.FAILED) from None
    return ended


def _running(operation: Json) -> bool:
    return bool(operation["status"] == "InProgress")


def _progress(
    service: ServiceTarget, operations: Sequence[Json], events: Sequence[Json], now: ServiceTime
) -> list[Block]:
    def count(state: str) -> int:
        return sum(operation[state] for operation in operations)

    over = count("done") + count("failed") + count("cancelled")
    planned = max(count("planned"), over)
    if not any(map(_running, operations)):
        over = planned = max(planned, 1)
    text = f"{count('done')} of {planned} done" if count("planned") else "in progress"
    text += "".join(
        f", {count(state)} {state}" for state in ("failed", "cancelled") if count(state)
    )
    kinds = ", ".join(dict.fromkeys(operation["kind"] for operation in operations))
    blocks: list[Block] = [ProgressBar(over, planned, f"{kinds}: {text}")]
    stopped = now.stopped and any(map(_running, operations))
    hint = show.stopped_clock_hint(service, stopped=stopped, indent="  ")
    return blocks + show.pending(events, now.at) + hint


def exit_if_failed(operations: Sequence[Json], *, silent: bool) -> None:
    """Report the operations that did not succeed, and exit with 1 if there are any."""
    failed = [operation for operation in operations if operation["status"] != "Succeeded"]
    if not silent:
        for operation in failed:
            why = f": {printable(operation['error'])}" if operation["error"] else ""
            name = f"{operation['kind']} {operation['id']}"
            click.echo(f"Error: {name} {operation['status'].lower()}{why}", err=True)
    if failed:
        raise SystemExit(errors.FAILED)
