"""`fairwarning exec`: run any program as if it were inside a machine (O3)."""

import math
from pathlib import Path

import click

from fairwarning.core.errors import FairwarningError, NotFound, Refused
from fairwarning.machines import inside

FAILED, NOT_FOUND, REFUSED = 1, 3, 4  # exit codes; 2 is wrong usage, any other the program's own

_EPILOG = """\b
Examples:
  fairwarning exec web_0 -- ./my-handler --verbose
  fairwarning exec web_0 -- bash
  fairwarning exec web_0 -- curl -H Metadata:true \\
    "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"

The exit code is the program's own; 1 if it could not be started, 2 for wrong usage, 3 if there is
no such machine, 4 if the service refuses. Linux only.
"""


@click.command("exec", epilog=_EPILOG)
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(".fairwarning"),
    show_default=True,
    help="The folder of the service, as given to `fairwarning up`.",
)
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=inside.GRACE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long the program may take to end, when the machine goes down, before it is killed.",
)
@click.option("--quiet", is_flag=True, help="Do not say on stderr what happens to the machine.")
@click.argument("machine")
@click.argument("program", metavar="-- COMMAND...", nargs=-1, required=True)
def command(
    machine: str, program: tuple[str, ...], data: Path, grace: float, *, quiet: bool
) -> None:
    """Run COMMAND as if it were inside MACHINE, which it is from then on.

    Inside, http://169.254.169.254 answers as that machine; there is no other network. What happens
    to the machine happens to the program: a freeze stops it for a while, a reboot ends it (SIGTERM,
    then SIGKILL) and starts it again, a redeploy empties $TMPDIR as well, an eviction or a delete
    ends it for good. No root is needed.
    """
    if not math.isfinite(grace):
        raise click.UsageError("--grace must be a number of seconds")
    task = inside.Inside(machine, program, data.resolve(), grace, quiet)
    try:
        code = inside.run(task)
    except FairwarningError as error:
        click.echo(f"fairwarning: {error.message}", err=True)
        code = _exit_code(error)
    except OSError as error:
        click.echo(f"fairwarning: cannot run inside {machine}: {error}", err=True)
        code = FAILED
    raise SystemExit(code)


def _exit_code(error: FairwarningError) -> int:
    if error.status == NotFound.status:
        return NOT_FOUND
    return REFUSED if Refused.status <= error.status < FairwarningError.status else FAILED
