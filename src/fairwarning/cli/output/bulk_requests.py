"""One request for each of several machines or events: all are tried, then the failures counted."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import click

from fairwarning.cli.connection.redaction import without_secrets
from fairwarning.cli.output import errors
from fairwarning.cli.output.show import Json
from fairwarning.core.errors import FairwarningError, Refused


class Tried(NamedTuple):
    """The answers to the requests that succeeded, and the errors of the others."""

    answers: list[Json]
    errors: list[FairwarningError]

    def exit_if_failed(self) -> None:
        """Print how many failed, and exit with the code of the first error."""
        if not self.errors:
            return
        count = len(self.answers) + len(self.errors)
        if count > 1:
            click.echo(f"{len(self.errors)} of {count} failed.", err=True)
        raise SystemExit(errors.exit_code(self.errors[0]))


def ask_each(
    names: Sequence[str],
    ask: Callable[[str], Json],
    outcome: Callable[[str, Json], str],
    *,
    silent: bool,
) -> Tried:
    """Send a request for each name and print a line about its outcome; go on after an error.

    An error that is not about the request, such as a service that is down, ends it at once.
    """
    tried = Tried([], [])
    for name in names:
        try:
            tried.answers.append(ask(name))
        except Refused as error:
            tried.errors.append(error)
            click.echo(f"Error: {name}: {without_secrets(error.message)}", err=True)
            continue
        if not silent:
            click.echo(outcome(name, tried.answers[-1]))
    return tried
