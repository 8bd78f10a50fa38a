"""`fairwarning clock ...`: show the clock, and control a virtual clock (O5)."""

import json
import threading
from concurrent.futures import Future, wait

import click

from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.output import follow, show
from fairwarning.cli.output.blocks import ProgressBar
from fairwarning.cli.output.show import Json
from fairwarning.cli.parameters import options
from fairwarning.cli.parameters.command_classes import SuggestingGroup
from fairwarning.cli.parameters.parameter_types import DURATION, Number
from fairwarning.core.times import parse_date, spoken

_SHOW_SECONDS = 0.5  # between two looks at the clock while it is advanced
_ADVANCE_SECONDS = 24 * 3600.0

_EPILOG = """\b
Examples, for a service started with `fairwarning up --demo --clock virtual`:
  fairwarning clock advance 15m
  fairwarning clock run 60      (one minute per second)
  fairwarning clock freeze
"""


@click.group("clock", cls=SuggestingGroup, epilog=_EPILOG)
def command() -> None:
    """Show the service's clock, and control a virtual clock."""


@command.command("show", epilog=show.examples("clock show", "clock show --json"))
@show.as_json
@options.service
def show_(service: ServiceTarget, *, as_json: bool) -> None:
    """Show the current time of the service."""
    clock = client.ask(service, "GET", "/api/clock")
    _print(clock, as_json=as_json)


@command.command(
    epilog=show.examples("clock advance 15m", "clock advance 90", "clock advance PT1H30M"),
    otherwise="A clock is never set back: write a DURATION such as 90, 90s, 15m or 2h.",
)
@click.argument("duration", type=DURATION)
@show.as_json
@options.service
def advance(service: ServiceTarget, duration: float, *, as_json: bool) -> None:
    """Advance a virtual clock. Everything that falls due in that time happens.

    DURATION is written as 90, 90s, 15m, 2h, 1d or PT15M.
    """
    _print(_advance(service, duration, silent=as_json), as_json=as_json)


def _advance(service: ServiceTarget, seconds: float, *, silent: bool) -> Json:
    """Advance the clock; on a terminal, show how far it is. A large fleet takes its time."""
    start = parse_date(client.ask(service, "GET", "/api/clock")["now"])
    answer: Future[Json] = Future()
    threading.Thread(target=_send_advance, args=(service, seconds, answer), daemon=True).start()
    if not _is_done(answer):
        silent = silent or not follow.is_redrawn()
        with follow.display(silent=silent, progress=True) as show_blocks:
            while not _is_done(answer):
                clock = client.ask(service, "GET", "/api/clock")  # fails if the service has ended
                passed = parse_date(clock["now"]) - start
                text = f"{spoken(passed)} of {spoken(seconds)}"
                show_blocks([ProgressBar(round(passed), round(seconds), text)])
            show_blocks([])
    return answer.result()


def _send_advance(service: ServiceTarget, seconds: float, answer: Future[Json]) -> None:
    body = {"advance_seconds": seconds}
    try:
        clock = client.ask(service, "POST", "/api/clock", body, seconds=_ADVANCE_SECONDS)
        answer.set_result(clock)
    except Exception as error:  # noqa: BLE001  (the main thread raises it)
        answer.set_exception(error)


def _is_done(answer: Future[Json]) -> bool:
    return bool(wait([answer], _SHOW_SECONDS).done)


@command.command(epilog=show.examples("clock run 1", "clock run 60"))
@click.argument("rate", type=Number(0))
@show.as_json
@options.service
def run(service: ServiceTarget, rate: float, *, as_json: bool) -> None:
    """Run a virtual clock at RATE times real time."""
    _set(service, as_json=as_json, rate=rate)


@command.command(epilog=show.examples("clock freeze"))
@show.as_json
@options.service
def freeze(service: ServiceTarget, *, as_json: bool) -> None:
    """Stop a virtual clock."""
    _set(service, as_json=as_json, rate=0.0)


def _set(service: ServiceTarget, *, as_json: bool, **change: float) -> None:
    clock = client.ask(service, "POST", "/api/clock", change)
    _print(clock, as_json=as_json)


def _print(clock: Json, *, as_json: bool) -> None:
    click.echo(json.dumps(clock) if as_json else f"{clock['now']}, {show.pace(clock)}")
