"""`fairwarning certify`: which of the known traps a handler survives (O11)."""

import asyncio
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from fairwarning.cli import options
from fairwarning.testing.certify import allowances, report
from fairwarning.testing.certify.judging import TrapResult
from fairwarning.testing.certify.playing import CertifyOptions
from fairwarning.testing.certify.running import play_all
from fairwarning.testing.certify.traps import TRAPS, Trap

_WIDTH = 120  # where there is no terminal to ask
_LONGEST_PREPARE_SECONDS = 600

_EPILOG = """\b
Examples:
  fairwarning certify -- ./my-handler --verbose
  fairwarning certify --trap freeze --trap gone -- ./my-handler
  fairwarning certify --junit report.xml -- sh -c 'exec ./my-handler --state "$STATE_DIRECTORY"'

The exit code is 0 if it survived all of them, 1 if not, 2 for wrong usage. Linux only.
"""


@click.command("certify", epilog=_EPILOG)
@click.option(
    "--trap",
    "names",
    multiple=True,
    metavar="NAME",
    type=click.Choice([trap.name for trap in TRAPS]),
    help="Only this trap; may be repeated. All are listed in docs/certify.md.",
)
@click.option(
    "--no-approve",
    is_flag=True,
    help="It is meant never to approve: do not count that against it.",
)
@click.option(
    "--prepare",
    type=click.FloatRange(1, _LONGEST_PREPARE_SECONDS),
    default=allowances.PREPARE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="How long it may take from reading of an event to approving it.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=len(TRAPS),
    show_default=True,
    metavar="N",
    help="How many traps at a time, each with a program of its own.",
)
@click.option(
    "--junit",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the verdicts as build servers read them.",
)
@click.option("--json", "as_json", is_flag=True, help="One object instead of the table.")
@click.option("--badge", is_flag=True, help="One line for a README instead of the table.")
@click.argument("program", metavar="-- COMMAND...", nargs=-1, required=True)
def command(
    *,
    names: tuple[str, ...],
    no_approve: bool,
    prepare: float,
    jobs: int,
    junit: Path | None,
    as_json: bool,
    badge: bool,
    program: tuple[str, ...],
) -> None:
    """Run COMMAND through the known traps, and tell which it survives.

    COMMAND is run unchanged, as `fairwarning exec` would run it: http://169.254.169.254 answers as
    its machine, a reboot ends it and starts it again. It has to stay in the foreground. Each trap
    has a service and a program of its own, side by side; what has to outlive a reboot belongs in
    $STATE_DIRECTORY.
    """
    if as_json and badge:
        raise click.UsageError("take --json or --badge, not both")
    if shutil.which(program[0]) is None:
        raise click.UsageError(f"cannot run {program[0]!r}: there is no such program")
    if not sys.platform.startswith("linux"):
        raise click.UsageError("programs are run in namespaces, which only Linux has")
    terms = CertifyOptions(program, not no_approve, prepare, jobs)
    traps = [trap for trap in TRAPS if trap.name in names or not names]
    with options.errors_reported(service=False):
        verdicts = _run(traps, terms)
    if junit:
        _write(junit, verdicts)
    _tell(program, verdicts, as_json=as_json, badge=badge)
    raise SystemExit(0 if all(verdict.survived for verdict in verdicts) else options.FAILED)


def _run(traps: list[Trap], terms: CertifyOptions) -> list[TrapResult]:
    async def until_ended(folder: Path, ended: Callable[[TrapResult], None]) -> list[TrapResult]:
        own = asyncio.current_task()
        assert own is not None
        # Whoever ends us ends the programs, too.
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, own.cancel)
        return await play_all(traps, terms, folder, ended)

    folder = Path(tempfile.mkdtemp(prefix="fw-"))  # short: sockets are in it
    try:
        with _progress(len(traps)) as ended:
            return asyncio.run(until_ended(folder, ended))
    except (asyncio.CancelledError, KeyboardInterrupt):
        raise click.Abort from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _progress(total: int) -> Iterator[Callable[[TrapResult], None]]:
    """A bar on a terminal, else a line for each trap; stdout is for the verdicts."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda verdict: click.echo(_line(verdict), err=True)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, TimeElapsedColumn(), console=console, transient=True) as progress:
        task = progress.add_task("traps", total=total)

        def ended(verdict: TrapResult) -> None:
            progress.console.print(_line(verdict), markup=False)
            progress.advance(task)

        yield ended


def _line(verdict: TrapResult) -> str:
    word = "survived" if verdict.survived else "failed"
    return f"{word:<8}  {verdict.trap.name} ({verdict.seconds:.1f} s)"


def _write(path: Path, verdicts: list[TrapResult]) -> None:
    try:
        report.write_junit(path, verdicts)
    except OSError as error:
        click.echo(f"Error: cannot write {path}: {error.strerror}", err=True)
        raise SystemExit(options.FAILED) from error


def _tell(
    program: tuple[str, ...], verdicts: list[TrapResult], *, as_json: bool, badge: bool
) -> None:
    if as_json:
        click.echo(report.as_json(program, verdicts))
        return
    if badge:
        click.echo(report.badge(verdicts))
        return
    console = Console(highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH
    console.print(report.table(verdicts))
    for note in report.notes(verdicts):
        console.print(note, markup=False)
    console.print(f"{report.summary(verdicts)}.", markup=False)
