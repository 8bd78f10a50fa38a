"""The options that name the service of a command."""

from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from fairwarning.cli.connection.target import ServiceOptions, choose
from fairwarning.cli.output.errors import errors_reported
from fairwarning.cli.parameters import completion
from fairwarning.cli.parameters.command_classes import ConnectionOption
from fairwarning.server import hints, variables

_MAY_BE_EMPTY = {"address", "args", "program", "terminate_notice"}
_SERVICE_OPTIONS = (
    click.option(
        "--server",
        cls=ConnectionOption,
        metavar="URL",
        help=f"URL of the service's console.  [env: {variables.URL}]",
    ),
    click.option(
        "--context",
        cls=ConnectionOption,
        metavar="NAME",
        shell_complete=completion.contexts,
        help="Service that `fairwarning context add` has given this name.  [env:"
        f" {variables.CONTEXT}]",
    ),
    click.option(
        "--data",
        cls=ConnectionOption,
        metavar="PATH",
        type=click.Path(path_type=Path, file_okay=False),
        help=f"Data folder of a service on this host.  [env: {variables.DATA}; default:"
        f" {hints.DATA}]",
    ),
    click.option(
        "--token-file",
        cls=ConnectionOption,
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help=f"File with the token.  [env: {variables.TOKEN_FILE}, or the token in"
        f" {variables.TOKEN}]",
    ),
    click.option(
        "--ca",
        cls=ConnectionOption,
        metavar="FILE",
        type=click.Path(path_type=Path, dir_okay=False),
        help=f"Certificates to trust, in PEM format.  [env: {variables.CA}]",
    ),
)


def service(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name a service, which the command gets; report the errors of both."""

    @wraps(command)
    def with_service(**values: Any) -> None:  # noqa: ANN401  (the command's own)
        _refuse_empty(values)
        wanted = ServiceOptions(**{name: values.pop(name) for name in ServiceOptions._fields})
        with errors_reported():
            command(service=choose(wanted), **values)

    for option in reversed(_SERVICE_OPTIONS):
        with_service = option(with_service)
    return with_service


def _refuse_empty(values: Mapping[str, object]) -> None:
    """Refuse an empty text: it would mean everything, and the script meant an unset variable."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = parameter.name or ""
        value = values.get(name)
        is_empty = value == "" or (isinstance(value, tuple) and "" in value)
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if is_empty and is_given and name not in _MAY_BE_EMPTY:
            raise click.BadParameter("must not be empty", param=parameter)


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


def renamed(old: str, new: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Answer an option that had another name before with its new name."""

    def refuse(_: click.Context, __: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise click.UsageError(f"{old} is now {new}")

    own_name = f"old{old.replace('-', '_')}"  # another option may have that of `old`
    return click.option(old, own_name, hidden=True, expose_value=False, callback=refuse)
