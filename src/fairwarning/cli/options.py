"""Options that several commands share, and how commands report errors."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from fairwarning.cli.redaction import is_connection_string, without_secrets
from fairwarning.core.errors import FairwarningError, NotFound, Refused
from fairwarning.metadata.listeners import LAST_PORT, PortRange, loopback_host
from fairwarning.server import hints

FAILED, NOT_FOUND, REFUSED = 1, 3, 4  # exit codes; click uses 2 for wrong usage

_DATABASE = (
    "this is the folder on the service's host, not a database: give the folder of `up --run`"
)


def _folder(_: click.Context, __: click.Parameter, path: Path) -> Path:
    if is_connection_string(str(path)):
        raise click.BadParameter(_DATABASE)
    return path


data = click.option(
    "--data",
    metavar="PATH",
    default=hints.DATA,
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    callback=_folder,
    help="Data folder of the service.",
)


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
