"""`fairwarning healthcheck`: check whether the service is ready (O10)."""

from http import HTTPStatus
from pathlib import Path

import click

from fairwarning.cli import client, options
from fairwarning.core.errors import Unavailable
from fairwarning.server.ready import read_ready

_EPILOG = """\b
Examples:
  fairwarning healthcheck && echo up
  fairwarning healthcheck --data /var/lib/fairwarning
"""


@click.command("healthcheck", epilog=_EPILOG)
@options.data
def command(data: Path) -> None:
    """Check whether the service is ready for commands. Exits with 0 only if it is."""
    with options.errors_reported():
        _check(data)
    click.echo("The service is ready.")


def _check(data: Path) -> None:
    status, answer = client.send(data, read_ready(data)["console"], "GET", "/readyz")
    if status != HTTPStatus.OK:
        why = answer.get("error") if isinstance(answer, dict) else f"status {status}"
        raise Unavailable("NotReady", f"the service is up but not ready: {why}")
