"""`fairwarning token`: create access tokens and client secrets (C3)."""

import json
import shlex
from pathlib import Path

import click

from fairwarning.cli import options
from fairwarning.cli.az import CLOUD
from fairwarning.server.ready import ReadyLine, read_ready
from fairwarning.service.config.settings import TENANT
from fairwarning.service.tokens import Principal, Role, Tokens, signing_key

_HOUR_SECONDS = 3600
_MOST_HOURS = 10 * 365 * 24

_EPILOG = """\b
Examples:
  fairwarning token ci --role reader
  fairwarning token alice --role tenant --group rg --hours 8
  fairwarning token alice --role tenant --group rg --login     (for az login and SDKs)

A token is valid until it expires. To revoke all tokens, stop the service and delete signing.key
from its data folder.
"""


@click.command("token", epilog=_EPILOG)
@click.argument("name")
@options.data
@click.option(
    "--role",
    type=click.Choice([role.value for role in Role]),
    required=True,
    help="operator: full access; tenant: manage machines; reader: read only.",
)
@click.option("--group", default="", help="Limit access to this resource group.")
@click.option(
    "--hours",
    type=click.IntRange(1, _MOST_HOURS),
    help="Hours until expiry.  [default: 1; with --login a year]",
)
@click.option("--login", is_flag=True, help="Create a client secret for logging in instead.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *, name: str, data: Path, role: str, group: str, hours: int | None, login: bool, as_json: bool
) -> None:
    """Create an access token for NAME. The journal records its actions under that name."""
    with options.errors_reported():
        ready = read_ready(data)
        principal = Principal(name=name, role=Role(role), group=group)
        tokens = Tokens(signing_key(data), TENANT)
        lifetime = {} if hours is None else {"seconds": hours * _HOUR_SECONDS}
        if not login:
            token = tokens.access(principal, **lifetime)
            click.echo(json.dumps({"token": token}) if as_json else token)
            return
        secret = tokens.secret(principal, **lifetime)
    if as_json:
        login_data = {"client": name, "secret": secret, "tenant": TENANT, "authority": ready["arm"]}
        click.echo(json.dumps(login_data))
    else:
        click.echo(f"client  {name}\ntenant  {TENANT}\nsecret  {secret}")
        click.echo(_login_commands(name, ready))


def _login_commands(name: str, ready: ReadyLine) -> str:
    """Return the commands that log in. Without the first ones, the secret would go to Azure."""
    principal = shlex.join(["--username", name, "--tenant", TENANT])
    return f"""
To log in with the Azure CLI in this shell (it asks for the secret):
  export AZURE_CONFIG_DIR="$(mktemp -d)" AZURE_CORE_INSTANCE_DISCOVERY=false
  export REQUESTS_CA_BUNDLE={shlex.quote(ready["ca"])}
  az cloud register --name {CLOUD} --endpoint-resource-manager {ready["arm"]} &&
    az cloud set --name {CLOUD} &&
    az login --service-principal {principal}"""
