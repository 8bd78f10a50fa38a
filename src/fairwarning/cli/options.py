"""Options that several commands share, and how commands report errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import click

from fairwarning.cli.redaction import without_secrets
from fairwarning.cli.target import ServiceOptions, choose
from fairwarning.core.errors import FairwarningError, NotFound, Refused
from fairwarning.metadata.listeners import LAST_PORT, PortRange, loopback_host
from fairwarning.server import contexts, hints, variables

FAILED, NOT_FOUND, REFUSED = 1, 3, 4  # exit codes; click uses 2 for wrong usage


def complete_contexts(_: click.Context, __: click.Parameter, prefix: str) -> list[str]:
    """Complete the name of a context."""
    try:
        names = contexts.read().services
    except FairwarningError:  # an error message would garble the command line
        return []
    return [name for name in names if name.startswith(prefix)]


_SERVICE_OPTIONS = (
    click.option(
        "--server",
        metavar="URL",
        help=f"URL of the service's console.  [env: {variables.URL}]",
    ),
    click.option(
        "--context",
        metavar="NAME",
        shell_complete=complete_contexts,
        help="Service that `fairwarning context add` has given this name.  [env:"
        f" {variables.CONTEXT}]",
    ),
    click.option(
        "--data",
        metavar="PATH",
        type=click.Path(path_type=Path, file_okay=False),
        help=f"Data folder of a service on this host.  [env: {variables.DATA}; default:"
        f" {hints.DATA}]",
    ),
    click.option(
        "--token-file",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help=f"File with the token.  [env: {variables.TOKEN_FILE}, or the token in"
        f" {variables.TOKEN}]",
    ),
    click.option(
        "--ca",
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help=f"Certificates to trust, in PEM format.  [env: {variables.CA}]",
    ),
)


def service(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name a service; the command gets it as `service`."""

    @wraps(command)
    def with_service(**values: Any) -> None:  # noqa: ANN401  (the command's own)
        wanted = ServiceOptions(**{name: values.pop(name) for name in ServiceOptions._fields})
        with errors_reported():
            chosen = choose(wanted)
        command(service=chosen, **values)

    for option in reversed(_SERVICE_OPTIONS):
        with_service = option(with_service)
    return with_service


def this_host_only(why: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Refuse --server and --context for a command that uses no running service; say why."""

    def refuse(_: click.Context, param: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise click.UsageError(f"{param.opts[0]} cannot be used here: {why}")

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for name in ("--server", "--context"):
            hidden = click.option(name, hidden=True, expose_value=False, callback=refuse)
            command = hidden(command)
        return command

    return decorate


class Address(click.ParamType[tuple[str, int]]):
    """An address as HOST:PORT, with an IPv6 host in brackets; `localhost` is a loopback address."""

    name = "HOST:PORT"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """Split the address into host and port."""
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        if not host or not is_port(port):
            self.fail(f"{value!r} is not HOST:PORT, such as 127.0.0.1:8169", param, ctx)
        host = host.removeprefix("[").removesuffix("]")
        return loopback_host() if host == "localhost" else host, int(port)


def is_port(text: str) -> bool:
    """Whether a text is the number of a port, or 0."""
    return text.isascii() and text.isdigit() and int(text) <= LAST_PORT


class Ports(click.ParamType[PortRange]):
    """Ports as FIRST-LAST, or FIRST- for all from the first on."""

    name = "FIRST-LAST"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> PortRange:
        """Split the range into its first and last port."""
        if isinstance(value, PortRange):
            return value
        first, dash, last = str(value).partition("-")
        last = last or str(LAST_PORT)
        if not dash or not (is_port(first) and is_port(last)) or not 0 < int(first) <= int(last):
            self.fail(f"{value!r} is not FIRST-LAST or FIRST-, such as 8200-9199", param, ctx)
        return PortRange(first=int(first), last=int(last))


@contextmanager
def errors_reported(*, service: bool = True) -> Iterator[None]:
    """Report an error as a sentence on stderr and an exit code, never as a traceback.

    Commands that use no running service (`service=False`) always exit with `FAILED`.
    """
    try:
        yield
    except FairwarningError as error:
        click.echo(f"Error: {without_secrets(error.message)}", err=True)
        raise SystemExit(exit_code(error) if service else FAILED) from error


def exit_code(error: FairwarningError) -> int:
    """Return the exit code for an error of the service."""
    if isinstance(error, NotFound):
        return NOT_FOUND
    return REFUSED if isinstance(error, Refused) else FAILED
