"""`fairwarning operation ...`: show the progress of an operation."""

from operator import itemgetter

import click

from fairwarning.cli.commands import listing
from fairwarning.cli.commands.listing import Column, Listing, add_list
from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.output import follow, show
from fairwarning.cli.output.show import Json, moment
from fairwarning.cli.parameters import filters, options
from fairwarning.cli.parameters.command_classes import SuggestingGroup
from fairwarning.core.model import OperationStatus

_EPILOG = show.examples("operation show ID --wait", "operation explain ID")


@click.group("operation", cls=SuggestingGroup, epilog=_EPILOG)
def command() -> None:
    """Show the progress and history of operations.

    Every command that starts an operation prints its id. Its first 4 or more characters suffice.
    """


def _counts(operation: Json) -> str:
    counts = [
        f"{operation[state]} {state}"
        for state in ("done", "failed", "cancelled")
        if operation[state]
    ]
    return f"{operation['planned']} planned, {', '.join(counts) or '0 done'}"


_OPERATIONS = Listing(
    "operations",
    "operations",
    (
        Column("operation", itemgetter("id")),
        Column("kind", itemgetter("kind")),
        Column("status", itemgetter("status")),
        Column("machines", _counts),
        Column("accepted", lambda operation: moment(operation["accepted_at"])),
        Column("actor", itemgetter("actor"), wide=True),
        Column("ended", lambda operation: moment(operation["ended_at"]), wide=True),
        Column("error", itemgetter("error"), wide=True),
    ),
    key="id",
    whole="operation",
)


add_list(
    command,
    _OPERATIONS,
    "List operations, the newest first. Ended ones are kept for a while.",
    "operation list",
    "operation list --status InProgress",
    "operation list --sort -accepted",
    filters=[filters.one_of("--status", OperationStatus, "Only with this status.")],
)


@command.command(
    "show", epilog=show.examples("operation show ID", "operation show ID --wait --json")
)
@click.argument("id_", metavar="ID")
@show.waits
@show.as_json
@options.service
def show_(service: ServiceTarget, id_: str, *, wait: bool, as_json: bool) -> None:
    """Show the progress of an operation."""
    path = client.api_path("operations", client.full_id(service, "operation", id_))
    operation = client.ask(service, "GET", path)
    if wait:
        events = client.list_all(service, "events", operation=operation["id"])
        (operation,) = follow.wait_for_end(service, [operation], events, silent=as_json)
    show.print_result(operation, listing.fields(_OPERATIONS, operation, {}), as_json=as_json)
    if wait:
        follow.exit_if_failed([operation], silent=as_json)


@command.command(
    "explain", epilog=show.examples("operation explain ID", "operation explain ID --json")
)
@click.argument("id_", metavar="ID")
@show.as_json
@options.service
def explain(service: ServiceTarget, id_: str, *, as_json: bool) -> None:
    """Show the history of an operation. Lists its caller, its events and durations."""
    id_ = client.full_id(service, "operation", id_)
    show.explain(service, "operations", id_, as_json=as_json)
