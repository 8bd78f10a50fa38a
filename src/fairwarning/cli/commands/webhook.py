"""`fairwarning webhook ...`: manage webhooks, which receive every change to an event."""

from operator import itemgetter
from typing import TextIO

import click

from fairwarning.cli.commands.listing import Column, Listing, add_list
from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.output import errors, show
from fairwarning.cli.output.blocks import StyledText
from fairwarning.cli.output.show import Json
from fairwarning.cli.parameters import completion, options
from fairwarning.cli.parameters.command_classes import SuggestingGroup

_EPILOG = show.examples(
    "webhook create pager https://example.com/in",
    "webhook list",
    "webhook test pager",
)
_NAME = click.argument("name", shell_complete=completion.webhooks)
_SUCCESS = range(200, 300)  # HTTP statuses


@click.group("webhook", cls=SuggestingGroup, epilog=_EPILOG, renamed={"remove": "delete"})
def command() -> None:
    """Manage webhooks. A webhook receives every change to an event.

    The fleet file must allow the host of the URL.
    """


@command.command(
    "create",
    epilog=show.examples(
        "webhook create pager https://example.com/in",
        "webhook create pager https://example.com/in --secret-file key",
    ),
)
@click.argument("name")
@click.argument("url")
@click.option(
    "--secret-file",
    type=click.File("r", encoding="utf-8"),
    help="File with the signing secret; - reads stdin. Generated if omitted.",
)
@show.as_json
@options.service
def create(
    *,
    service: ServiceTarget,
    name: str,
    url: str,
    secret_file: TextIO | None,
    as_json: bool,
) -> None:
    """Create a webhook. Delivers new changes to URL in order, at least once."""
    secret = secret_file.read().strip() if secret_file else None
    values = {"name": name, "url": url, "secret": secret}
    body = {key: value for key, value in values.items() if value is not None}
    webhook = client.ask(service, "POST", "/api/webhooks", body)
    lines = [f"{webhook['name']}: created, to {webhook['url']}"]
    if secret is None:
        lines.append(f"Secret (shown only once): {webhook['secret']}")
    show.print_result(webhook, *lines, as_json=as_json)


def _state(webhook: Json) -> StyledText:
    return StyledText(webhook["state"], "red" if webhook["last_error"] else "green")


def _delivered(webhook: Json) -> str:
    abandoned = f", {webhook['given_up']} abandoned" if webhook["given_up"] else ""
    return f"{webhook['delivered']}{abandoned}"


_WEBHOOKS = Listing(
    "webhooks",
    "webhooks",
    (
        Column("webhook", itemgetter("name")),
        Column("target", itemgetter("url")),
        Column("state", _state),
        Column("delivered", _delivered),
        Column("last error", lambda webhook: webhook["last_error"] or ""),
    ),
    live=False,
)


add_list(
    command,
    _WEBHOOKS,
    "List webhooks with their delivery state.",
    "webhook list",
    "webhook list --json",
)


@command.command("delete", epilog=show.examples("webhook delete pager"))
@_NAME
@options.service
def delete(service: ServiceTarget, name: str) -> None:
    """Delete a webhook."""
    client.ask(service, "DELETE", client.api_path("webhooks", name))
    click.echo(f"{name}: deleted")


@command.command("test", epilog=show.examples("webhook test pager", "webhook test pager --json"))
@_NAME
@show.as_json
@options.service
def test(service: ServiceTarget, name: str, *, as_json: bool) -> None:
    """Send a test message. Exits with 1 unless the target accepts it."""
    answer = client.ask(service, "POST", client.api_path("webhooks", name, "test"), {})
    status = answer["status"]
    show.print_result(answer, f"{name}: target answered {status}", as_json=as_json)
    if status not in _SUCCESS:
        raise SystemExit(errors.FAILED)
