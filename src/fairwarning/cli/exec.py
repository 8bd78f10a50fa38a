"""`fairwarning exec`: run any program as if it were inside a machine (O3)."""

import math
from pathlib import Path

import click

from fairwarning.cli import options
from fairwarning.core.errors import FairwarningError
from fairwarning.machines.process import supervisor

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
@options.data
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=supervisor.GRACE_SECONDS,
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
    task = supervisor.MachineProgram(machine, program, data.resolve(), grace, quiet)
    try:
        code = supervisor.run(task)
    except FairwarningError as error:
        click.echo(f"fairwarning: {error.message}", err=True)
        code = options.exit_code(error)
    except OSError as error:
        click.echo(f"fairwarning: cannot run inside {machine}: {error}", err=True)
        code = options.FAILED
    raise SystemExit(code)
