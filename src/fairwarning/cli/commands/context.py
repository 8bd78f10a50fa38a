"""`fairwarning context ...`: give names to services, and choose the one to use (O13)."""

import os
import re
import sys
from operator import itemgetter
from pathlib import Path

import click

from fairwarning.cli.commands import listing
from fairwarning.cli.commands.listing import Column, Listing, ListOptions
from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import (
    RemoteService,
    ServiceOptions,
    check_token,
    check_url,
    given_token,
    read_certificates,
)
from fairwarning.cli.output import errors, show
from fairwarning.cli.output.show import Json
from fairwarning.cli.parameters import completion
from fairwarning.cli.parameters.command_classes import SuggestingGroup
from fairwarning.cli.parameters.parameter_types import Parsed
from fairwarning.core.errors import FairwarningError
from fairwarning.server import contexts, hints, variables
from fairwarning.server.contexts import NamedService

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_EPILOG = show.examples(
    "token create ops --role operator > token",
    "context add prod --server http://127.0.0.1:8170 < token",
    "context use prod",
    "context list",
    "context remove prod",
)
_PRECEDENCE = """A command uses the first of these that names a service:

\b
  1. its options: --server, --context or --data
  2. variables: FAIRWARNING_URL, FAIRWARNING_CONTEXT, FAIRWARNING_DATA
  3. the current context
  4. the data folder .fairwarning in the current folder
"""


def _context_name(text: str) -> str:
    """Return the name of a context, if it is one that needs no quoting."""
    if not _NAME.fullmatch(text):
        raise ValueError("use up to 64 letters, digits, '.', '_' and '-'")
    return text


@click.group(
    "context",
    cls=SuggestingGroup,
    epilog=_EPILOG,
    help=f"Give names to services on any host, and choose the one to use.\n\n{_PRECEDENCE}",
)
def command() -> None:
    """Group the commands."""


@command.command(
    "add",
    epilog=show.examples(
        "token create ops --role operator > token",
        "context add prod --server http://127.0.0.1:8170 < token",
        "context add prod --token-file token   (a new token)",
    ),
)
@click.argument("name", type=Parsed("NAME", _context_name))
@click.option("--server", metavar="URL", help="URL of the service's console.")
@click.option(
    "--token-file",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the token.  [default: FAIRWARNING_TOKEN, FAIRWARNING_TOKEN_FILE, or stdin]",
)
@click.option(
    "--ca",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Certificates to trust, in PEM format.  [default: those that this system trusts]",
)
@click.option("--no-check", is_flag=True, help="Store it without a connection to the service.")
def add(
    name: str, server: str | None, token_file: Path | None, ca: Path | None, *, no_check: bool
) -> None:
    """Add the service at URL as NAME, or change it. Connects to it first.

    The token and the CA are copied into a file that only you can read.
    """
    with errors.errors_reported():
        old = contexts.read().services.get(name)
        if server is None and old is None:
            raise click.UsageError(f"there is no context {name!r} yet; give its URL with --server")
        url = old.server if server is None and old else check_url(server or "")
        kept = old.ca if old and old.server == url else ""
        trusted = read_certificates(ca) if ca else kept
        service = NamedService(url, _token(token_file), trusted)
        about = None if no_check else _check(name, service)
        with contexts.changing() as stored:
            stored.services[name] = service
    use = f"Use it with `{hints.program()} context use {name}`, or with --context {name}."
    click.echo(f"Stored context {name}: {_describe(url, about)}. {use}")


def _token(path: Path | None) -> str:
    """Return the token of the file or the environment, or else the one that the user types."""
    if token := given_token(ServiceOptions(token_file=path)):
        return token
    if sys.stdin.isatty():
        return check_token(click.prompt("Token", hide_input=True, err=True), "the input")
    return check_token(sys.stdin.read(), "stdin")


def _check(name: str, service: NamedService) -> Json:
    """Return what the service says about itself and the token."""
    try:
        about: Json = client.ask(
            RemoteService(service, "--server", context=name), "GET", "/api/service"
        )
    except FairwarningError as error:
        error.message += f". The context {name} is not stored; --no-check stores it anyway"
        raise
    return about


def _describe(url: str, about: Json | None) -> str:
    if about is None:
        return f"{url}, not checked"
    token = about["token"]
    group = f" in {token['group']}" if token["group"] else ""
    until = show.moment(token["expires_at"])
    return (
        f"{url}, Fairwarning {about['version']}, as {token['name']} ({token['role']}{group})"
        f" until {until}"
    )


@command.command("use", epilog=show.examples("context use prod", "context use --none"))
@click.argument("name", required=False, shell_complete=completion.contexts)
@click.option("--none", is_flag=True, help="Use no context.")
def use(name: str | None, *, none: bool) -> None:
    """Make NAME the current context. Commands that name no other service use it."""
    if none == (name is not None):
        raise click.UsageError("give the name of a context, or --none")
    with errors.errors_reported(), contexts.changing() as stored:
        server = stored.get(name).server if name else ""
        stored.current = name or ""
    click.echo(f"The current context is {name}: {server}." if name else "No context is current.")
    _report_override()


_CONTEXTS = Listing(
    "contexts",
    "contexts",
    (
        Column("current", lambda context: "*" if context["current"] else ""),
        Column("name", itemgetter("name")),
        Column("server", itemgetter("server")),
    ),
    whole="server",
    live=False,
)


@command.command("list", epilog=show.examples("context list", "context list --json"))
@listing.list_options(_CONTEXTS)
def list_(wanted: ListOptions) -> None:
    """List the contexts, without their tokens."""
    with errors.errors_reported():
        stored = contexts.read()
    values: list[Json] = [
        {"name": name, "server": service.server, "current": name == stored.current}
        for name, service in sorted(stored.services.items())
    ]
    listing.show_items(_CONTEXTS, wanted, values)
    _report_override()


@command.command("remove", epilog=show.examples("context remove prod"))
@click.argument("name", shell_complete=completion.contexts)
def remove(name: str) -> None:
    """Remove a context, with its token. The token itself stays valid: see `token revoke`."""
    with errors.errors_reported(), contexts.changing() as stored:
        stored.get(name)
        del stored.services[name]
        was_current = stored.current == name
        stored.current = "" if was_current else stored.current
    click.echo(f"Removed context {name}." + (" No context is current." if was_current else ""))


def _report_override() -> None:
    """Say which variable of the environment takes precedence over the current context."""
    for variable in (variables.URL, variables.CONTEXT, variables.DATA):
        if os.environ.get(variable):
            click.echo(f"{variable} is set and takes precedence.", err=True)
            return
