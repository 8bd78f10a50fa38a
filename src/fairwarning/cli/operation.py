"""`fairwarning operation ...`: what somebody asked for, and how far it is."""

from pathlib import Path

import click

from fairwarning.cli import client, explanation, follow, options, show
from fairwarning.cli.blocks import FieldList
from fairwarning.cli.show import Json, moment

_EPILOG = show.examples("operation show ID --wait", "operation explain ID")


@click.group("operation", epilog=_EPILOG)
def command() -> None:
    """What somebody asked for, and how far it is. Each action prints its operation."""


@command.command(
    "show", epilog=show.examples("operation show ID", "operation show ID --wait --json")
)
@options.data
@click.argument("id_", metavar="ID")
@show.waits
@show.as_json
def show_(data: Path, id_: str, *, wait: bool, as_json: bool) -> None:
    """How far an operation is."""
    with options.errors_reported():
        found = client.ask(data, "GET", f"/api/operations/{client.part(id_)}")
        if wait:
            (found,) = follow.until_over(data, [found], _events(data, found), silent=as_json)
        show.print_result(found, _facts(found), as_json=as_json)
        if wait:
            follow.print_end([found], silent=as_json)


def _events(data: Path, operation: Json) -> list[Json]:
    """Those that are still to come of it."""
    found = client.listed(data, "events", show.ASKED)
    return [event for event in found if event["operation"] == operation["id"]]


def _facts(found: Json) -> FieldList:
    counts = [f"{found[what]} {what}" for what in ("done", "failed", "cancelled") if found[what]]
    return FieldList(
        {
            "operation": found["id"],
            "kind": found["kind"],
            "by": found["actor"],
            "status": found["status"],
            "error": found["error"],
            "accepted": moment(found["accepted_at"]),
            "ended": moment(found["ended_at"]),
            "machines": f"{found['planned']} planned, {', '.join(counts) or 'none over yet'}",
        }
    )


@command.command(
    "explain", epilog=show.examples("operation explain ID", "operation explain ID --json")
)
@options.data
@click.argument("id_", metavar="ID")
@show.as_json
def explain(data: Path, id_: str, *, as_json: bool) -> None:
    """Tell its story. Who asked, what followed from it, what is awaited, what took how long."""
    with options.errors_reported():
        told = client.ask(data, "GET", f"/api/operations/{client.part(id_)}/explain")
    show.print_result(told, *([] if as_json else explanation.blocks(told)), as_json=as_json)
