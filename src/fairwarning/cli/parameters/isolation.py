"""The options of `exec` and `certify` that concern how a program finds its endpoint."""

import re

import click

from fairwarning.machines.process.isolation import AUTO, NAMESPACES, NONE

isolation = click.option(
    "--isolation",
    type=click.Choice([AUTO, NAMESPACES, NONE]),
    default=AUTO,
    show_default=True,
    help="Run COMMAND in namespaces, or as an ordinary child process with http_proxy and"
    " FAIRWARNING_ENDPOINT set (none). auto: in namespaces if the system allows them.",
)


def _check_name(_: click.Context, __: click.Parameter, name: str) -> str:
    if name and not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", name):
        raise click.BadParameter(f"{name!r} is not the name of an environment variable")
    return name


endpoint_variable = click.option(
    "--endpoint-variable",
    default="",
    metavar="NAME",
    callback=_check_name,
    help="Set this environment variable of COMMAND to the URL of its endpoint.",
)
