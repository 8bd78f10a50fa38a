"""`fairwarning webhook ...`: who else is told of every change of an event."""

from pathlib import Path
from typing import TextIO

import click

from fairwarning.cli import client, completion, options, show
from fairwarning.cli.blocks import Block, OutputTable, StyledText
from fairwarning.cli.show import Json

_EPILOG = show.examples(
    "webhook create pager https://example.com/in",
    "webhook list",
    "webhook test pager",
)
_NAME = click.argument("name", shell_complete=completion.webhooks)
_TAKEN = 200, 300  # statuses, from and before


@click.group("webhook", epilog=_EPILOG)
def command() -> None:
    """Send every change of an event to a URL. Its host must be allowed in the fleet file."""


@command.command(
    "create",
    epilog=show.examples(
        "webhook create pager https://example.com/in",
        "webhook create grid https://example.com/in --form eventgrid",
        "webhook create pager https://example.com/in --secret-file key",
    ),
)
@options.data
@click.argument("name")
@click.argument("url")
@click.option(
    "--form",
    type=click.Choice(["cloudevents", "eventgrid"]),
    help="What messages look like.  [default: cloudevents]",
)
@click.option(
    "--secret-file",
    type=click.File("r", encoding="utf-8"),
    help="A file with the secret that signs messages; - is stdin. Without it one is made.",
)
@click.option(
    "--handshake/--no-handshake", default=None, help="Whether the target is asked if it agrees."
)
@show.as_json
def create(
    *,
    data: Path,
    name: str,
    url: str,
    form: str | None,
    secret_file: TextIO | None,
    handshake: bool | None,
    as_json: bool,
) -> None:
    """Tell URL of every change of an event. At least once, in order, from now on."""
    secret = secret_file.read().strip() if secret_file else None
    given = {"name": name, "url": url, "form": form, "secret": secret, "handshake": handshake}
    body = {key: value for key, value in given.items() if value is not None}
    with options.errors_reported():
        made = client.ask(data, "POST", "/api/webhooks", body)
    lines = [f"{made['name']}: created, {made['form']} to {made['url']}"]
    if secret is None:
        lines.append(f"Secret, shown this once: {made['secret']}")
    show.print_result(made, *lines, as_json=as_json)


@command.command("list", epilog=show.examples("webhook list", "webhook list --json"))
@options.data
@show.as_json
def list_(data: Path, *, as_json: bool) -> None:
    """Every webhook, with how its delivery goes."""
    with options.errors_reported():
        found = client.ask(data, "GET", "/api/webhooks")["webhooks"]
    show.print_result(found, *([] if as_json else _table(found)), as_json=as_json)


def _table(found: list[Json]) -> list[Block]:
    rows = [
        (
            one["name"],
            f"{one['url']}\n{one['form']}",
            StyledText(one["state"], "red" if one["last_error"] else "green"),
            f"{one['delivered']}, {one['given_up']} given up"
            if one["given_up"]
            else str(one["delivered"]),
            one["last_error"] or "",
        )
        for one in found
    ]
    return show.first_rows(
        OutputTable(("webhook", "to", "state", "delivered", "last error"), rows), "webhooks"
    )


@command.command("remove", epilog=show.examples("webhook remove pager"))
@options.data
@_NAME
def remove(data: Path, name: str) -> None:
    """Tell it nothing more."""
    with options.errors_reported():
        client.ask(data, "DELETE", f"/api/webhooks/{client.part(name)}")
    click.echo(f"{name}: removed")


@command.command("test", epilog=show.examples("webhook test pager", "webhook test pager --json"))
@options.data
@_NAME
@show.as_json
def test(data: Path, name: str, *, as_json: bool) -> None:
    """Send it a message now. Exits with 1 unless it was taken."""
    with options.errors_reported():
        answer = client.ask(data, "POST", f"/api/webhooks/{client.part(name)}/test", {})
    status = answer["status"]
    show.print_result(answer, f"{name}: answered {status}", as_json=as_json)
    if not _TAKEN[0] <= status < _TAKEN[1]:
        raise SystemExit(options.FAILED)
