"""`fairwarning fault ...`: what a metadata service does on a bad day, on demand (M21)."""

from pathlib import Path

import click

from fairwarning.cli import client, completion, options, show
from fairwarning.cli.blocks import Block, OutputTable
from fairwarning.cli.durations import Duration
from fairwarning.cli.show import Json
from fairwarning.core.times import spoken
from fairwarning.service.faults import FaultKind

_EPILOG = show.examples(
    "fault set 410 --machine web_0 --count 3",
    "fault set delay --delay 5 --seconds 60",
    "fault list",
    "fault clear",
)


@click.group("fault", epilog=_EPILOG)
def command() -> None:
    """Let the metadata endpoint misbehave, to see what a handler makes of it."""


@command.command(
    "set",
    epilog=show.examples(
        "fault set 410 --machine web_0 --count 3",
        "fault set 500 --scope web/0 --seconds 2m",
        "fault set delay --delay 5",
    ),
)
@options.data
@click.argument("kind", type=click.Choice([kind.value for kind in FaultKind]))
@click.option(
    "--machine", help="Only for this machine; else for all.", shell_complete=completion.machines
)
@click.option("--scope", help="Only for machines of this scope.", shell_complete=completion.scopes)
@click.option("--count", type=click.IntRange(1), help="For so many requests; else for any number.")
@click.option("--seconds", type=Duration(), help="For so long: 90, 2m, 1h.")
@click.option("--delay", "delay_seconds", type=Duration(), help="How long a delay takes: 5, 0.5.")
def set_(*, data: Path, kind: str, machine: str | None, scope: str | None, **given: float) -> None:
    """Answer with this fault from now on. After it a connection is closed, but for a delay."""
    given_all = {"kind": kind, "machine": machine, "scope": scope, **given}
    body = {name: value for name, value in given_all.items() if value is not None}
    with options.errors_reported():
        client.ask(data, "POST", "/api/faults", body)
    whom = machine or (f"Every machine of {scope}" if scope else "Every machine")
    click.echo(f"{whom} meets: {kind}. `fairwarning fault clear` ends it.")


@command.command("list", epilog=show.examples("fault list", "fault list --json"))
@options.data
@show.as_json
def list_(data: Path, *, as_json: bool) -> None:
    """The faults in force."""
    with options.errors_reported():
        found = client.ask(data, "GET", "/api/faults")["faults"]
    show.print_result(found, *([] if as_json else _table(found)), as_json=as_json)


def _table(found: list[Json]) -> list[Block]:
    rows = [
        (
            f"{one['kind']} of {spoken(one['delay_seconds'])}"
            if one["kind"] == FaultKind.DELAY
            else one["kind"],
            one["machine"] or (f"all of {one['scope']}" if one["scope"] else "every machine"),
            f"{one['count']} requests" if one["count"] else "any number",
            spoken(one["seconds"]) if one["seconds"] else "until cleared",
        )
        for one in found
    ]
    return show.first_rows(OutputTable(("fault", "for", "how often", "how long"), rows), "faults")


@command.command(epilog=show.examples("fault clear"))
@options.data
def clear(data: Path) -> None:
    """All is well again."""
    with options.errors_reported():
        client.ask(data, "DELETE", "/api/faults")
    click.echo("No faults.")
