"""`fairwarning healthcheck`: whether the service takes commands (O10)."""

import http.client
from pathlib import Path
from urllib.parse import urlsplit

import click

from fairwarning.cli import options
from fairwarning.cli.local import START, read_ready
from fairwarning.core.errors import Unavailable

_SECONDS = 5.0

_EPILOG = """\b
Examples:
  fairwarning healthcheck && echo up
  fairwarning healthcheck --data /var/lib/fairwarning
"""


@click.command("healthcheck", epilog=_EPILOG)
@options.data
def command(data: Path) -> None:
    """Say whether the service of a folder is up and takes commands; exit with 0 only if so."""
    with options.told():
        _check(read_ready(data)["console"])
    click.echo("The service is up and takes commands.")


def _check(console: str) -> None:
    where = urlsplit(console)
    connection = http.client.HTTPConnection(where.hostname or "", where.port, timeout=_SECONDS)
    try:
        connection.request("GET", "/readyz")
        status = connection.getresponse().status
    except OSError as error:
        raise Unavailable("NotUp", f"nothing answers at {console} ({error}); {START}") from error
    finally:
        connection.close()
    if status != http.client.OK:
        raise Unavailable("NotReady", f"the service answers, but takes no commands ({status})")
