"""`fairwarning exec`: run a program as if it were inside a machine (O3)."""

import math
from pathlib import Path

import click

from fairwarning.cli import options
from fairwarning.core.errors import FairwarningError, Unavailable
from fairwarning.machines.process import foreground
from fairwarning.machines.process.machine_program import GRACE_SECONDS, MachineProgram
from fairwarning.server import hints

_EPILOG = """\b
Examples:
  fairwarning exec web_0 -- ./my-handler --verbose
  fairwarning exec web_0 -- bash
  fairwarning exec web_0 -- curl -H Metadata:true \\
    "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01"

Exits with the exit code of the program; 1 if it could not be started, 2 for wrong usage, 3 if the
machine does not exist, 4 if the service refuses. Linux only.
"""


@click.command("exec", epilog=_EPILOG)
@options.data
@click.option(
    "--grace",
    type=click.FloatRange(min=0),
    default=GRACE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Time for COMMAND to end after SIGTERM, and then for the processes that it has left.",
)
@click.option("--once", is_flag=True, help="End with the machine's first reboot, redeploy or stop.")
@click.option("--quiet", is_flag=True, help="Do not report machine state changes on stderr.")
@click.argument("machine")
@click.argument("program", metavar="-- COMMAND...", nargs=-1, required=True)
def command(
    machine: str, program: tuple[str, ...], data: Path, grace: float, *, once: bool, quiet: bool
) -> None:
    """Run COMMAND as if it were inside MACHINE.

    Inside, http://169.254.169.254 is the metadata endpoint of that machine; there is no other
    network. Impacts on the machine apply to the program: a freeze pauses it, a reboot stops it
    (SIGTERM, then SIGKILL) and restarts it, a redeploy also empties $TMPDIR, an eviction or a
    delete stops it for good. Does not need root.

    COMMAND cannot act as another machine, but it has your files: do not run programs that you do
    not trust. Run by root, it can leave the machine.
    """
    if not math.isfinite(grace):
        raise click.UsageError("--grace must be a number of seconds")
    task = MachineProgram(machine, program, data.resolve(), grace, quiet=quiet, once=once)
    try:
        code = foreground.run(task)
    except Unavailable as error:
        hint = f"{hints.start_hint(data)}, or give the folder of a running one with --data"
        click.echo(f"fairwarning: {error.message}; {hint}", err=True)
        code = options.FAILED
    except FairwarningError as error:
        click.echo(f"fairwarning: {error.message}", err=True)
        code = options.exit_code(error)
    except OSError as error:
        click.echo(f"fairwarning: cannot run inside {machine}: {error}", err=True)
        code = options.FAILED
    raise SystemExit(code)
