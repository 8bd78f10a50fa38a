"""`fairwarning operation ...`: show the progress of an operation."""

import click

from fairwarning.cli import client, explanation, follow, options, show
from fairwarning.cli.blocks import FieldList
from fairwarning.cli.show import Json, moment
from fairwarning.cli.target import ServiceTarget

_EPILOG = show.examples("operation show ID --wait", "operation explain ID")


@click.group("operation", epilog=_EPILOG)
def command() -> None:
    """Show the progress and history of operations.

    Every command that starts an operation prints its id.
    """


@command.command(
    "show", epilog=show.examples("operation show ID", "operation show ID --wait --json")
)
@click.argument("id_", metavar="ID")
@show.waits
@show.as_json
@options.service
def show_(service: ServiceTarget, id_: str, *, wait: bool, as_json: bool) -> None:
    """Show the progress of an operation."""
    with options.errors_reported():
        operation = client.ask(service, "GET", f"/api/operations/{client.quoted(id_)}")
        if wait:
            events = _events(service, operation)
            (operation,) = follow.wait_for_end(service, [operation], events, silent=as_json)
        show.print_result(operation, _fields(operation), as_json=as_json)
        if wait:
            follow.exit_if_failed([operation], silent=as_json)


def _events(service: ServiceTarget, operation: Json) -> list[Json]:
    """Return the active events of an operation."""
    events = client.list_all(service, "events", show.READ_ROWS)
    return [event for event in events if event["operation"] == operation["id"]]


def _fields(operation: Json) -> FieldList:
    counts = [
        f"{operation[state]} {state}"
        for state in ("done", "failed", "cancelled")
        if operation[state]
    ]
    return FieldList(
        {
            "operation": operation["id"],
            "kind": operation["kind"],
            "actor": operation["actor"],
            "status": operation["status"],
            "error": operation["error"],
            "accepted": moment(operation["accepted_at"]),
            "ended": moment(operation["ended_at"]),
            "machines": f"{operation['planned']} planned, {', '.join(counts) or '0 done'}",
        }
    )


@command.command(
    "explain", epilog=show.examples("operation explain ID", "operation explain ID --json")
)
@click.argument("id_", metavar="ID")
@show.as_json
@options.service
def explain(service: ServiceTarget, id_: str, *, as_json: bool) -> None:
    """Show the history of an operation. Lists its caller, its events and durations."""
    with options.errors_reported():
        history = client.ask(service, "GET", f"/api/operations/{client.quoted(id_)}/explain")
    show.print_result(history, *([] if as_json else explanation.blocks(history)), as_json=as_json)
