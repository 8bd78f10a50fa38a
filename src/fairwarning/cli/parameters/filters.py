"""Options that say which items a list has; the service applies them."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import click

from fairwarning.cli.parameters import completion
from fairwarning.cli.parameters.parameter_types import AnyCase
from fairwarning.core.model import EventStatus, EventType, Source

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def flag(name: str, about: str) -> Decorator:
    """Return an option without a value, which the query of the API spells `true`."""
    return click.option(
        name, is_flag=True, help=about, callback=lambda _, __, is_set: "true" if is_set else None
    )


def one_of(name: str, kind: type[StrEnum], about: str, *, metavar: str | None = None) -> Decorator:
    """Return an option with one of these values, in any case."""
    choice = AnyCase(*(value.value for value in kind))
    return click.option(name, type=choice, metavar=metavar, help=about)


SCOPE = click.option("--scope", help="Only of this scope.", shell_complete=completion.scopes)
SET = click.option("--set", help="Only of this scale set.", shell_complete=completion.sets)
TYPE = one_of("--type", EventType, "Only with events of this type.")
STATUS = one_of("--status", EventStatus, "Only with events of this status.")
SOURCE = one_of("--source", Source, "Only from this source.")
NOT_POLLED = flag("--not-polled", "Only of scopes of which no machine polls.")
TEXT = click.option("--text", "q", help="Only with this text in a name.")
