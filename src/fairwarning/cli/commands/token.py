"""`fairwarning token ...`: create, list and revoke tokens and client secrets (C3, C7)."""

import json
import shlex
from operator import itemgetter
from typing import Any

import click

from fairwarning.cli.commands import listing
from fairwarning.cli.commands.az import CLOUD, ArmAddress, arm_address
from fairwarning.cli.commands.listing import Column, Listing, ListOptions
from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.output import show
from fairwarning.cli.output.blocks import StyledText
from fairwarning.cli.output.show import Json
from fairwarning.cli.parameters import options
from fairwarning.cli.parameters.command_classes import SuggestingGroup
from fairwarning.cli.parameters.parameter_types import Integer
from fairwarning.service.config.settings import TENANT

_HOUR_SECONDS = 3600
_MOST_HOURS = 10 * 365 * 24
_ROLES = ("operator", "tenant", "reader")

_SHOW_LOGIN_SERVER = "az cloud show --query endpoints.activeDirectory --output tsv"

_EPILOG = show.examples(
    "token create ci --role reader",
    "token create alice --role tenant --group rg --login   (for az login and SDKs)",
    "token list",
    "token revoke ID",
)


@click.group(
    "token",
    cls=SuggestingGroup,
    epilog=_EPILOG,
    otherwise="To create a token of this name, run `fairwarning token create {} --role ROLE`. ",
)
def command() -> None:
    """Manage tokens and client secrets."""


@command.command(
    "create",
    epilog=show.examples(
        "token create ci --role reader",
        "token create alice --role tenant --group rg --hours 8",
        "token create alice --role tenant --group rg --login",
    ),
)
@click.argument("name")
@click.option(
    "--role",
    type=click.Choice(_ROLES),
    required=True,
    help="operator: full access; tenant: manage machines; reader: read only.",
)
@click.option("--group", default="", help="Limit access to this resource group.  [default: all]")
@click.option(
    "--hours",
    type=Integer(1, _MOST_HOURS),
    help="Hours until expiry.  [default: 1; with --login a year]",
)
@click.option("--login", is_flag=True, help="Create a client secret for logging in instead.")
@show.as_json
@options.service
def create(
    *,
    name: str,
    service: ServiceTarget,
    role: str,
    group: str,
    hours: int | None,
    login: bool,
    as_json: bool,
) -> None:
    """Create an access token for NAME. The journal records its actions under that name."""
    body: dict[str, Any] = {"name": name, "role": role, "group": group}
    body |= {"use": "login"} if login else {}
    body |= {} if hours is None else {"seconds": hours * _HOUR_SECONDS}
    address = arm_address(service) if login else None
    created = client.ask(service, "POST", "/api/tokens", body)
    text, token = created["token"], {"id": created["info"]["id"]}
    if address is None:
        click.echo(json.dumps(token | {"token": text}) if as_json else text)
        return
    if as_json:
        secret = {"client": name, "secret": text, "tenant": TENANT, "authority": address["arm"]}
        click.echo(json.dumps(token | secret))
    else:
        click.echo(f"client  {name}\ntenant  {TENANT}\nsecret  {text}")
        click.echo(_login_commands(name, address))


def _login_commands(name: str, address: ArmAddress) -> str:
    """Return one shell command that logs in.

    `az login` on its own would send the secret to Azure. So each step needs the ones before it, and
    the last line, which may be copied alone, first checks where the secret would go.
    """
    arm = address["arm"]
    principal = shlex.join(["--username", name, "--tenant", TENANT])
    return f"""
To log in with the Azure CLI in this shell, paste all lines. It asks for the secret.
  AZURE_CONFIG_DIR="$(mktemp -d)" && unset AZURE_CLOUD_NAME &&
  export AZURE_CONFIG_DIR AZURE_CORE_INSTANCE_DISCOVERY=false AZURE_CORE_COLLECT_TELEMETRY=no &&
  export REQUESTS_CA_BUNDLE={shlex.quote(address["ca"])} &&
  az cloud register --name {CLOUD} --endpoint-resource-manager {arm} &&
  az cloud set --name {CLOUD} &&
  test "$({_SHOW_LOGIN_SERVER})" = {arm}/adfs && az login --service-principal {principal}"""


def _holder(token: Json) -> str:
    group = f" in {token['group']}" if token["group"] else ""
    return f"{token['name']} ({token['role']}{group})"


_TOKENS = Listing(
    "tokens",
    "tokens",
    (
        Column("token", itemgetter("id")),
        Column("use", itemgetter("use")),
        Column("holder", _holder),
        Column("created", lambda token: show.moment(token["created_at"])),
        Column("expires", lambda token: show.moment(token["expires_at"])),
        Column("revoked", lambda token: StyledText(show.moment(token["revoked_at"]), "red")),
    ),
    key="id",
    whole="token",
)


@command.command("list", epilog=show.examples("token list", "token list --sort expires --json"))
@listing.list_options(_TOKENS)
@options.service
def list_(service: ServiceTarget, wanted: ListOptions) -> None:
    """List tokens that have not expired, with browser sessions and logins."""
    listing.show_list(service, _TOKENS, wanted._replace(sort=wanted.sort or "created"))


@command.command(
    "revoke",
    epilog=show.examples("token revoke ID", "token revoke ID ID --json"),
)
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@show.as_json
@options.service
def revoke(service: ServiceTarget, ids: tuple[str, ...], *, as_json: bool) -> None:
    """Revoke tokens by id: all of them or, if an id is unknown, none.

    Browser sessions and logins that were got with them end too.
    """
    full = [client.full_id(service, "token", id_) for id_ in ids]
    revoked = client.ask(service, "POST", "/api/tokens/revoke", {"ids": full})["tokens"]
    lines = [f"{token['id']}: revoked ({token['use']}, {_holder(token)})" for token in revoked]
    show.print_result(revoked, *lines, as_json=as_json)
