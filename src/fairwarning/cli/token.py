"""`fairwarning token`: who else may manage the fleet, and how much of it (C3)."""

import json
from pathlib import Path

import click

from fairwarning.cli import options
from fairwarning.server.ready import read_ready
from fairwarning.service.config.settings import TENANT
from fairwarning.service.tokens import Principal, Role, Tokens, signing_key

_HOUR_SECONDS = 3600
_MOST_HOURS = 10 * 365 * 24

_EPILOG = """\b
Examples:
  fairwarning token ci --role reader
  fairwarning token alice --role tenant --group rg --hours 8
  fairwarning token alice --role tenant --group rg --login     (for az login, and for SDKs)

A token is good until it ends. To end all of them at once, stop the service and delete signing.key
from its data folder.
"""


@click.command("token", epilog=_EPILOG)
@click.argument("name")
@options.data
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    required=True,
    help="An operator may do everything, a tenant manage machines, a reader only look.",
)
@click.option("--group", default="", help="Only what is in this resource group.")
@click.option(
    "--hours",
    type=click.IntRange(1, _MOST_HOURS),
    help="How long it is good.  [default: 1; with --login a year]",
)
@click.option("--login", is_flag=True, help="A client secret, with which to log in, instead.")
@click.option("--json", "as_json", is_flag=True, help="An object, for scripts.")
def command(
    *, name: str, data: Path, role: str, group: str, hours: int | None, login: bool, as_json: bool
) -> None:
    """Make a token for somebody, whom the journal will call NAME."""
    with options.errors_reported():
        ready = read_ready(data)
        principal = Principal(name=name, role=Role(role), group=group)
        tokens = Tokens(signing_key(data), TENANT)
        given = {} if hours is None else {"seconds": hours * _HOUR_SECONDS}
        if not login:
            made = tokens.access(principal, **given)
            click.echo(json.dumps({"token": made}) if as_json else made)
            return
        secret = tokens.secret(principal, **given)
    if as_json:
        told = {"client": name, "secret": secret, "tenant": TENANT, "authority": ready["arm"]}
        click.echo(json.dumps(told))
    else:
        click.echo(f"client  {name}\ntenant  {TENANT}\nsecret  {secret}")
        click.echo(f"\naz login --service-principal --username {name} --tenant {TENANT} \\")
        click.echo("  --password (the secret)")
