"""`fairwarning clock ...`: virtual time (O5)."""

import json
from pathlib import Path

import click

from fairwarning.cli import client, options

_EPILOG = """\b
Examples, with a service started as `fairwarning up --demo --clock virtual`:
  fairwarning clock advance 900
  fairwarning clock run 60      (a minute a second)
  fairwarning clock freeze
"""


@click.group("clock", epilog=_EPILOG)
def command() -> None:
    """See the service's time, and move it where it is virtual."""


@command.command()
@options.data
@click.option("--json", "as_json", is_flag=True, help="An object, for scripts.")
def show(data: Path, *, as_json: bool) -> None:
    """What time it is."""
    with options.told():
        clock = client.ask(data, "GET", "/api/clock")
    click.echo(json.dumps(clock) if as_json else _told(clock))


@command.command()
@options.data
@click.argument("seconds", type=click.FloatRange(0))
def advance(data: Path, seconds: float) -> None:
    """Let SECONDS pass, and everything that is due in them happen."""
    _set(data, advance=seconds)


@command.command()
@options.data
@click.argument("rate", type=click.FloatRange(0))
def run(data: Path, rate: float) -> None:
    """Let time run at RATE times real time."""
    _set(data, rate=rate)


@command.command()
@options.data
def freeze(data: Path) -> None:
    """Let time stand still."""
    _set(data, rate=0.0)


def _set(data: Path, **change: float) -> None:
    with options.told():
        click.echo(_told(client.ask(data, "POST", "/api/clock", change)))


def _told(clock: dict[str, object]) -> str:
    if not clock["virtual"]:
        return f"{clock['now']}, real time"
    pace = f"{clock['rate']:g} times real time" if clock["rate"] else "standing still"
    return f"{clock['now']}, virtual, {pace}"
