"""`fairwarning journal`: who did what, when and why."""

from operator import itemgetter

import click

from fairwarning.cli.commands import listing
from fairwarning.cli.commands.listing import Column, Listing, ListOptions
from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.output import show
from fairwarning.cli.output.show import moment
from fairwarning.cli.parameters import completion, filters, options
from fairwarning.cli.parameters.command_classes import SectionedCommand
from fairwarning.core.decision import FactType

_JOURNAL = Listing(
    "journal",
    "journal lines",
    (
        Column("time", lambda line: moment(line["at"])),
        Column("type", itemgetter("type")),
        Column("about", lambda line: ", ".join(line["machines"]) or line["about"]),
        Column("actor", itemgetter("actor")),
        Column("detail", itemgetter("detail")),
        Column("event", itemgetter("event"), wide=True),
        Column("operation", itemgetter("operation"), wide=True),
        Column("number", lambda line: str(line["number"]), wide=True),
    ),
    key="number",
    whole="time",
    live=False,
)


@click.command(
    "journal",
    cls=SectionedCommand,
    epilog=show.examples(
        "journal --limit 20",
        "journal --about web_0 --all",
        "journal --type Approved --since 2026-01-01T00:00:00Z",
        "journal --scope web/0 -o csv",
    ),
)
@click.option(
    "--about",
    help="Only about this scope, scale set, machine, operation, rollout or event.",
    shell_complete=completion.machines,
)
@filters.SCOPE
@click.option("--actor", help="Only by this actor.")
@filters.one_of("--type", FactType, "Only of this type, such as Scheduled.", metavar="TYPE")
@click.option("--since", metavar="TIME", help="Only at this time or later, in ISO 8601.")
@click.option("--until", metavar="TIME", help="Only at this time or earlier, in ISO 8601.")
@filters.TEXT
@listing.list_options(_JOURNAL)
@options.service
def command(service: ServiceTarget, wanted: ListOptions, **query: str | None) -> None:
    """List what happened: who did what, when and why. The newest line is the last.

    To see lines as they are written, use `fairwarning event watch`.
    """
    most = listing.rows_to_read(wanted)
    lines = client.read_list(
        service, "journal", most, "lines", "before", newest="true", **query
    ).items
    listing.show_items(_JOURNAL, wanted, lines[::-1])
