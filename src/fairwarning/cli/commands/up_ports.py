"""The ports of `up`: three in a row with `--port-base`, and errors that name their options."""

from collections.abc import Iterator
from contextlib import contextmanager

import click
from click.core import ParameterSource

from fairwarning.core.errors import Refused
from fairwarning.metadata.listeners import LAST_PORT

Addresses = dict[str, tuple[str, int]]
"""The addresses of `up`, by the names of their options."""


def with_base(base: int | None, addresses: Addresses) -> Addresses:
    """Return the addresses with ports from `base` on, except for those that were given."""
    if base is None:
        return addresses
    if base + len(addresses) - 1 > LAST_PORT:
        text = f"--port-base must be at most {LAST_PORT - len(addresses) + 1}"
        raise click.UsageError(f"{text}: the service uses {len(addresses)} ports from it on")
    context = click.get_current_context()
    return {
        name: (host, base + place)
        if context.get_parameter_source(name) is ParameterSource.DEFAULT
        else (host, port)
        for place, (name, (host, port)) in enumerate(addresses.items())
    }


@contextmanager
def options_named(addresses: Addresses) -> Iterator[None]:
    """Add to the error about a port that cannot be used how to choose another."""
    try:
        yield
    except Refused as error:
        if error.code != "CannotListen":
            raise
        at_fault = [
            f"--{name}"
            for name, (host, port) in addresses.items()
            if f"{host}:{port}:" in error.message
        ]
        other = f"choose another address with {at_fault[0]}, or" if at_fault else "choose"
        hint = f"{other} three other ports with --port-base, such as --port-base 9169"
        raise Refused(error.code, f"{error.message}; {hint}") from error
