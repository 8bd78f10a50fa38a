"""`fairwarning certify`: test an event handler against the known traps (O11)."""

import asyncio
import os
import shutil
import signal
import tempfile
from pathlib import Path

import click
from rich.console import Console

from fairwarning.cli.output import errors
from fairwarning.cli.parameters import isolation as isolation_options
from fairwarning.cli.parameters import options
from fairwarning.cli.parameters.junit import JUNIT
from fairwarning.cli.parameters.parameter_types import Integer, Number
from fairwarning.machines.process.isolation import Isolation, choose
from fairwarning.testing.certify import allowances, report
from fairwarning.testing.certify.report import TrapResult
from fairwarning.testing.certify.runner import run_all
from fairwarning.testing.certify.trap_run import CertifyOptions
from fairwarning.testing.certify.traps import TRAPS, Trap

_WIDTH = 120  # columns, without a terminal
_LONGEST_PREPARE_SECONDS = 600

_EPILOG = """\b
Examples:
  fairwarning certify -- ./my-handler --verbose
  fairwarning certify --trap freeze --trap gone -- ./my-handler
  fairwarning certify --endpoint-variable IMDS_URL -- ./my-handler
  fairwarning certify --junit report.xml -- sh -c 'exec ./my-handler --state "$STATE_DIRECTORY"'

Exits with 0 if COMMAND survives every trap, 1 if not, 2 for wrong usage. On Linux and macOS.
"""


@click.command("certify", epilog=_EPILOG)
@click.option(
    "--trap",
    "names",
    multiple=True,
    metavar="NAME",
    type=click.Choice([trap.name for trap in TRAPS]),
    help="Run only this trap; repeatable. docs/certify.md lists them.",
)
@click.option(
    "--no-approve",
    is_flag=True,
    help="COMMAND never approves events by design; do not expect approvals.",
)
@click.option(
    "--prepare",
    type=Number(1, _LONGEST_PREPARE_SECONDS),
    default=allowances.PREPARE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="Time allowed between reading an event and approving it.",
)
@click.option(
    "--jobs",
    type=Integer(1),
    default=len(TRAPS),
    show_default=True,
    metavar="N",
    help="Traps to run in parallel.",
)
@JUNIT
@isolation_options.isolation
@isolation_options.endpoint_variable
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
@click.option("--badge", is_flag=True, help="Print one line for a README instead of the table.")
@click.argument("program", metavar="-- COMMAND...", nargs=-1, required=True)
@options.this_host_only("`certify` starts its own services on this host")
def command(
    *,
    names: tuple[str, ...],
    no_approve: bool,
    prepare: float,
    jobs: int,
    junit: Path | None,
    isolation: str,
    endpoint_variable: str,
    as_json: bool,
    badge: bool,
    program: tuple[str, ...],
) -> None:
    """Test the event handler COMMAND against the known traps.

    COMMAND runs unchanged, as with `fairwarning exec`: http://169.254.169.254 is the metadata
    endpoint of its machine, and a reboot stops and restarts it. It must stay in the foreground.
    Traps run in parallel, each with its own service and its own instance of COMMAND. State that
    must survive a reboot belongs in $STATE_DIRECTORY.
    """
    if as_json and badge:
        raise click.UsageError("--json and --badge cannot be used together")
    if shutil.which(program[0]) is None:
        raise click.UsageError(f"cannot run {program[0]!r}: program not found")
    traps = [trap for trap in TRAPS if trap.name in names or not names]
    with errors.errors_reported(service=False):
        chosen = _chosen(isolation)
        certify_options = CertifyOptions(
            program, not no_approve, prepare, jobs, chosen, endpoint_variable
        )
        results = _run(traps, certify_options)
    if as_json:
        click.echo(report.as_json(program, str(chosen), results))
    else:
        _print(results, badge=badge)
    if junit:
        report.write_junit(junit, results)
    raise SystemExit(0 if all(result.survived for result in results) else errors.FAILED)


def _chosen(wanted: str) -> Isolation:
    """Return how to run the handler; say at once what it cannot show."""
    chosen = choose(wanted)
    for line in chosen.notice("the handler"):
        click.echo(line, err=True)
    return chosen


def _run(traps: list[Trap], certify_options: CertifyOptions) -> list[TrapResult]:
    async def run() -> list[TrapResult]:
        task = asyncio.current_task()
        assert task is not None
        # SIGTERM must also stop the programs under test.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await run_all(traps, certify_options, folder, _report)

    folder = Path(tempfile.mkdtemp(prefix="fw-"))  # short, because socket paths are limited
    try:
        return asyncio.run(run())
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise click.Abort from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _report(result: TrapResult) -> None:
    word = "survived" if result.survived else "failed"
    click.echo(f"{word:<8}  {result.trap.name} ({result.seconds:.1f} s)", err=True)


def _print(results: list[TrapResult], *, badge: bool) -> None:
    if badge:
        click.echo(f"Fairwarning: {report.summary(results)}")
        return
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH
    console.print(report.table(results))
    for text in report.outputs(results):
        console.print(text, markup=False)
    for note in report.notes(results):
        console.print(note, markup=False)
    console.print(f"{report.summary(results)}.", markup=False)
