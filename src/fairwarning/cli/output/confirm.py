"""Commands that are large or final: a plan and a question before (O14), the failures after."""

import json
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, NamedTuple

import click

from fairwarning.cli.connection.redaction import without_secrets
from fairwarning.cli.output import errors, show
from fairwarning.cli.output.blocks import Block
from fairwarning.cli.output.show import Json
from fairwarning.core.errors import FairwarningError, Refused


class Confirmation(NamedTuple):
    """What the user has said in advance."""

    yes: bool
    dry_run: bool


class Plan(NamedTuple):
    """What a command would do: for people, and as JSON."""

    blocks: list[Block]
    data: object


def options(command: Callable[..., None]) -> Callable[..., None]:
    """Add `--yes` and `--dry-run`; the command gets them as `confirmation`."""

    @wraps(command)
    def with_options(*, yes: bool, dry_run: bool, **values: Any) -> None:  # noqa: ANN401  (the command's own)
        command(confirmation=Confirmation(yes, dry_run), **values)

    yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
    dry_run_option = click.option(
        "--dry-run", is_flag=True, help="Print what would happen, and change nothing."
    )
    return yes_option(dry_run_option(with_options))


def ask(
    confirmation: Confirmation, question: str, plan: Callable[[], Plan], *, as_json: bool
) -> None:
    """Return if the user agrees; exit otherwise. The plan is only made if it is needed."""
    if confirmation.yes and not confirmation.dry_run:
        return
    planned = plan()
    if confirmation.dry_run and as_json:
        click.echo(json.dumps(planned.data))
    else:
        show.print_lines(planned.blocks, err=not confirmation.dry_run)
    if confirmation.dry_run:
        raise SystemExit(0)
    if not sys.stdin.isatty():
        text = f"{question} Nothing was changed: this needs an answer, and there is no terminal"
        raise click.UsageError(f"{text}. Add --yes to go ahead, or --dry-run for the plan alone.")
    if not click.confirm(question, err=True):
        click.echo("Nothing was changed.", err=True)
        raise SystemExit(1)


# --- One request for each of several machines or events ------------------------------------------


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
