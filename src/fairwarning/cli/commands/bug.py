"""`fairwarning bug ...`: what a bug has stopped, and how to let it go on."""

from operator import itemgetter

import click

from fairwarning.cli.commands.listing import Column, Listing, add_list
from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.output import show
from fairwarning.cli.output.show import moment
from fairwarning.cli.parameters import options
from fairwarning.cli.parameters.command_classes import SuggestingGroup


@click.group(
    "bug",
    cls=SuggestingGroup,
    epilog=show.examples("bug list", "bug release Scope/web"),
)
def command() -> None:
    """List and release what is set aside because of a bug.

    A command that meets a bug in the service changes nothing. Only the scope, set or rollout that
    it addressed is set aside: what is due on it waits, and is tried again at growing intervals.
    """


_SET_ASIDE = Listing(
    "set_aside",
    "set-aside entities",
    (
        Column("entity", itemgetter("entity")),
        Column("since", lambda entity: moment(entity["since"])),
        Column("attempts", lambda entity: str(entity["attempts"])),
        Column("next attempt", lambda entity: moment(entity["retry_at"])),
        Column("reason", itemgetter("reason")),
    ),
    key="entity",
    live=False,
)


add_list(command, _SET_ASIDE, "List what is set aside, and why.", "bug list", "bug list --json")


@command.command("release", epilog=show.examples("bug release Scope/web"))
@click.argument("entity")
@options.service
def release(service: ServiceTarget, entity: str) -> None:
    """Release ENTITY, as `list` shows it: what is due on it is tried again at once."""
    client.ask(service, "DELETE", client.api_path("set-aside", entity))
    click.echo(f"{entity}: released")
