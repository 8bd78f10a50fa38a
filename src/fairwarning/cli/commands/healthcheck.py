"""`fairwarning healthcheck`: check whether the service is ready (O10)."""

import time
from http import HTTPStatus
from typing import Any

import click

from fairwarning.cli.connection import client
from fairwarning.cli.connection.target import ServiceTarget
from fairwarning.cli.parameters import options
from fairwarning.cli.parameters.command_classes import SectionedCommand
from fairwarning.cli.parameters.parameter_types import DURATION
from fairwarning.core.errors import Unavailable

_WAIT_SECONDS = 60.0
_LOOK_SECONDS = 0.2
_ANSWER_SECONDS = 5.0

_EPILOG = """\b
Examples:
  fairwarning healthcheck && echo up
  fairwarning healthcheck --wait 30s
  fairwarning healthcheck --data .fairwarning
  fairwarning healthcheck --server http://127.0.0.1:8170   (needs no token)
"""


@click.command("healthcheck", cls=SectionedCommand, epilog=_EPILOG)
@click.option(
    "--wait",
    type=DURATION,
    is_flag=False,
    flag_value=_WAIT_SECONDS,
    default=0.0,
    metavar="[DURATION]",
    help="Wait until it is ready, for at most this long: 30s, 5m.  [without a duration: 1m]",
)
@options.service
def command(service: ServiceTarget, wait: float) -> None:
    """Check whether the service is ready for commands. Exits with 0 only if it is."""
    deadline = time.monotonic() + wait
    while True:
        try:
            answer = _check(service)
            break
        except Unavailable:
            if time.monotonic() >= deadline:
                raise
        time.sleep(_LOOK_SECONDS)
    problems = [part for part in answer.get("parts", ()) if part["problem"]]
    click.echo("The service is ready, but degraded:" if problems else "The service is ready.")
    for part in problems:
        click.echo(f"  {part['name']}: {part['problem']}")


def _check(service: ServiceTarget) -> dict[str, Any]:
    status, answer = client.send(
        service, "GET", "/readyz", seconds=_ANSWER_SECONDS, needs_token=False
    )
    if status != HTTPStatus.OK:
        why = answer.get("error") if isinstance(answer, dict) else f"status {status}"
        raise Unavailable("NotReady", f"the service is up but not ready: {why}")
    return answer if isinstance(answer, dict) else {}
