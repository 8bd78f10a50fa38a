"""What several commands take, and how they fail."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from fairwarning.core.errors import FairwarningError, NotFound, Refused

DATA = ".fairwarning"
_LAST_PORT = 65535
FAILED, NOT_FOUND, REFUSED = 1, 3, 4  # exit codes; 2 is wrong usage, as click has it

data = click.option(
    "--data",
    metavar="PATH",
    default=DATA,
    show_default=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="The folder of the service.",
)


class Address(click.ParamType[tuple[str, int]]):
    """HOST:PORT; an IPv6 host in brackets."""

    name = "HOST:PORT"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        """Host and port apart."""
        if isinstance(value, tuple):
            return value
        host, _, port = str(value).rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or int(port) > _LAST_PORT:
            self.fail(f"{value!r} is not HOST:PORT, such as 127.0.0.1:8169", param, ctx)
        return host.removeprefix("[").removesuffix("]"), int(port)


@contextmanager
def errors_reported(*, service: bool = True) -> Iterator[None]:
    """An error is a sentence on stderr and an exit code, never a traceback.

    Without a service that could refuse anything, all that is left is to have failed.
    """
    try:
        yield
    except FairwarningError as error:
        click.echo(f"Error: {error.message}", err=True)
        raise SystemExit(exit_code(error) if service else FAILED) from error


def exit_code(error: FairwarningError) -> int:
    """What a script is told of an error that the service gave."""
    if isinstance(error, NotFound):
        return NOT_FOUND
    return REFUSED if isinstance(error, Refused) else FAILED
