"""How commands report errors: a sentence on stderr and an exit code, never a traceback."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from fairwarning.cli.connection.redaction import without_secrets
from fairwarning.core.errors import FairwarningError, NotFound, Refused

FAILED, NOT_FOUND, REFUSED = 1, 3, 4  # exit codes; click uses 2 for wrong usage


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
