"""The command `list` of a group whose items the API has in one collection."""

from collections.abc import Callable, Sequence

import click

from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.output import listing, show
from fairwarning.cli.output.listing import Listing, ListOptions
from fairwarning.cli.parameters import options


def add_list(
    group: click.Group,
    collection: Listing,
    about: str,
    *examples: str,
    filters: Sequence[Callable[..., Callable[..., None]]] = (),
) -> None:
    """Add the command that lists a collection of the API; the service applies the filters."""

    def list_items(service: ServiceTarget, wanted: ListOptions, **query: str | None) -> None:
        if collection.live:
            listing.show_list(service, collection, wanted, **query)
            return
        path = client.api_path(collection.collection.replace("_", "-"))
        items = client.ask(service, "GET", path)[collection.collection]
        listing.show_items(collection, wanted, items)

    command: Callable[..., None] = list_items
    for decorate in (options.service, listing.options(collection), *reversed(filters)):
        command = decorate(command)
    group.command("list", help=about, epilog=show.examples(*examples))(command)
