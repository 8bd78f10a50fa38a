"""`fairwarning fault ...`: what a metadata service does on a bad day, on demand (M21)."""

from pathlib import Path

import click

from fairwarning.cli import client, options
from fairwarning.service.faults import FaultKind

_EPILOG = """\b
Examples:
  fairwarning fault set 410 --machine web_0 --count 3
  fairwarning fault set delay --delay 5 --seconds 60
  fairwarning fault clear
"""


@click.group("fault", epilog=_EPILOG)
def command() -> None:
    """Let the metadata endpoint misbehave, to see what a handler makes of it."""


@command.command("set")
@options.data
@click.argument("kind", type=click.Choice([kind.value for kind in FaultKind]))
@click.option("--machine", help="Only for this machine; else for all.")
@click.option("--count", type=click.IntRange(1), help="For so many requests; else for any number.")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), help="For so long.")
@click.option("--delay", type=click.FloatRange(0), help="How many seconds a delay takes.")
def set_(
    *,
    data: Path,
    kind: str,
    machine: str | None,
    count: int | None,
    seconds: float | None,
    delay: float | None,
) -> None:
    """From now on, answer with this fault; a connection is closed after it, but for a delay."""
    given = {
        "kind": kind,
        "machine": machine,
        "count": count,
        "seconds": seconds,
        "delay_seconds": delay,
    }
    with options.told():
        body = {name: value for name, value in given.items() if value is not None}
        client.ask(data, "POST", "/api/faults", body)
    click.echo(f"{machine or 'Every machine'} meets: {kind}. `fairwarning fault clear` ends it.")


@command.command()
@options.data
def clear(data: Path) -> None:
    """All is well again."""
    with options.told():
        client.ask(data, "DELETE", "/api/faults")
    click.echo("No faults.")
