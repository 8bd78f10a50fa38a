"""Shell completion of names: those that the service knows, and those of contexts."""

import sys
from collections.abc import Callable
from urllib.parse import urlencode

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


def _names(collection: str, key: str, parameter: str = "") -> Complete:
    """Return a function that completes the names of a collection.

    The `parameter` of the API selects those that may begin so: a fleet may have a million machines.
    """

    def complete(context: click.Context, _: click.Parameter, prefix: str) -> list[str]:
        values = {name: context.params.get(name) for name in ServiceOptions._fields}
        start = _last_before(prefix) if parameter == "after" else prefix
        query = {"limit": _MOST} | ({parameter: start} if parameter and start else {})
        try:
            service = choose(ServiceOptions(**values))
            path = f"/api/{collection}?{urlencode(query, errors='replace')}"
            page = client.ask(service, "GET", path, seconds=_TIMEOUT_SECONDS)
        except (FairwarningError, click.ClickException):
            return []  # the service is down; an error message would garble the command line
        names = [str(item[key]) for item in page[collection]]
        return [name for name in names if name.lower().startswith(prefix.lower())]

    return complete


def _last_before(prefix: str) -> str:
    """Return a text that sorts right before all names that begin so."""
    return prefix and f"{prefix[:-1]}{chr(ord(prefix[-1]) - 1)}{chr(sys.maxunicode)}"


machines = _names("machines", "name", "q")
scopes = _names("scopes", "id", "after")
sets = _names("sets", "name", "after")
events = _names("events", "id", "prefix")
rollouts = _names("rollouts", "id", "prefix")
webhooks = _names("webhooks", "name")
