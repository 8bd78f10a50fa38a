"""`fairwarning clock ...`: virtual time (O5)."""

import json
from pathlib import Path

import click

from fairwarning.cli import client, options, show
from fairwarning.cli.durations import Duration
from fairwarning.cli.show import Json

_EPILOG = """\b
Examples, with a service started as `fairwarning up --demo --clock virtual`:
  fairwarning clock advance 15m
  fairwarning clock run 60      (a minute a second)
  fairwarning clock freeze
"""


@click.group("clock", epilog=_EPILOG)
def command() -> None:
    """See the service's time, and move it where it is virtual."""


@command.command("show", epilog=show.examples("clock show", "clock show --json"))
@options.data
@show.as_json
def show_(data: Path, *, as_json: bool) -> None:
    """What time it is."""
    with options.errors_reported():
        clock = client.ask(data, "GET", "/api/clock")
    _tell(clock, as_json=as_json)


@command.command(
    epilog=show.examples("clock advance 15m", "clock advance 90", "clock advance PT1H30M")
)
@options.data
@click.argument("duration", type=Duration())
@show.as_json
def advance(data: Path, duration: float, *, as_json: bool) -> None:
    """Let a time pass, and what is due in it happen. Write 90, 90s, 15m, 2h, 1d or PT15M."""
    _set(data, as_json=as_json, advance=duration)


@command.command(epilog=show.examples("clock run 1", "clock run 60"))
@options.data
@click.argument("rate", type=click.FloatRange(0))
@show.as_json
def run(data: Path, rate: float, *, as_json: bool) -> None:
    """Let time run at RATE times real time."""
    _set(data, as_json=as_json, rate=rate)


@command.command(epilog=show.examples("clock freeze"))
@options.data
@show.as_json
def freeze(data: Path, *, as_json: bool) -> None:
    """Let time stand still."""
    _set(data, as_json=as_json, rate=0.0)


def _set(data: Path, *, as_json: bool, **change: float) -> None:
    with options.errors_reported():
        clock = client.ask(data, "POST", "/api/clock", change)
    _tell(clock, as_json=as_json)


def _tell(clock: Json, *, as_json: bool) -> None:
    click.echo(json.dumps(clock) if as_json else f"{clock['now']}, {show.pace(clock)}")
