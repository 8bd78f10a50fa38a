"""Shell completion of names: those that the service knows, and those of contexts."""

from collections.abc import Callable

import click

from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceOptions, choose
from fairwarning.core.errors import FairwarningError
from fairwarning.server.contexts import read as read_contexts

_TIMEOUT_SECONDS = 1.0  # completion must not make the user wait
_MOST = 1000

Complete = Callable[[click.Context, click.Parameter, str], list[str]]


def contexts(_: click.Context, __: click.Parameter, prefix: str) -> list[str]:
    """Complete the name of a context."""
    try:
        names = read_contexts().services
    except FairwarningError:  # an error message would garble the command line
        return []
    return [name for name in names if name.startswith(prefix)]


def _names(collection: str, key: str) -> Complete:
    def complete(context: click.Context, _: click.Parameter, prefix: str) -> list[str]:
        values = {name: context.params.get(name) for name in ServiceOptions._fields}
        path = f"/api/{collection}?limit={_MOST}"
        try:
            service = choose(ServiceOptions(**values))
            page = client.ask(service, "GET", path, seconds=_TIMEOUT_SECONDS)
        except (FairwarningError, click.ClickException):
            return []  # the service is down; an error message would garble the command line
        names = [str(item[key]) for item in page[collection]]
        return [name for name in names if name.lower().startswith(prefix.lower())]

    return complete


machines = _names("machines", "name")
scopes = _names("scopes", "id")
sets = _names("sets", "name")
events = _names("events", "id")
rollouts = _names("rollouts", "id")
webhooks = _names("webhooks", "name")
