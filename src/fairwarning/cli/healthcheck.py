"""`fairwarning healthcheck`: check whether the service is ready (O10)."""

from http import HTTPStatus

import click

from fairwarning.cli import client, options
from fairwarning.cli.target import ServiceTarget
from fairwarning.core.errors import Unavailable

_EPILOG = """\b
Examples:
  fairwarning healthcheck && echo up
  fairwarning healthcheck --data /var/lib/fairwarning
  fairwarning healthcheck --server http://127.0.0.1:8170   (needs no token)
"""


@click.command("healthcheck", epilog=_EPILOG)
@options.service
def command(service: ServiceTarget) -> None:
    """Check whether the service is ready for commands. Exits with 0 only if it is."""
    with options.errors_reported():
        _check(service)
    click.echo("The service is ready.")


def _check(service: ServiceTarget) -> None:
    status, answer = client.send(service, "GET", "/readyz", needs_token=False)
    if status != HTTPStatus.OK:
        why = answer.get("error") if isinstance(answer, dict) else f"status {status}"
        raise Unavailable("NotReady", f"the service is up but not ready: {why}")
