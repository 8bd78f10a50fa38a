"""Questions before what is large or final: a plan, then yes or no (O14)."""

import json
import sys
from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple

import click

from fairwarning.cli.output import plain_text
from fairwarning.cli.output.blocks import Block


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
    if confirmation.dry_run:
        text = json.dumps(planned.data) if as_json else "\n".join(plain_text.lines(planned.blocks))
        click.echo(text)
        raise SystemExit(0)
    for line in plain_text.lines(planned.blocks):
        click.echo(line, err=True)
    if not sys.stdin.isatty():
        text = f"{question} Nothing was changed: this needs an answer, and there is no terminal"
        raise click.UsageError(f"{text}. Add --yes to go ahead, or --dry-run for the plan alone.")
    if not click.confirm(question, err=True):
        click.echo("Nothing was changed.", err=True)
        raise SystemExit(1)
