"""`make bench`: measure each figure and its peer.

Takes minutes; --quick takes seconds and gives only rough figures. Needs an idle machine.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from tests.bench import (
    agent,
    arm,
    clustered,
    cold_start,
    commands,
    crowd,
    decisions,
    first_response,
    growth,
    history,
    longpolls,
    memory,
    million,
    open_page,
    pgcommands,
    reach,
    readers,
    recording,
    report,
    serving,
    suites,
    visible,
    workers,
)
from tests.bench import machine as machines
from tests.bench.context import FULL, QUICK, ROOT, BenchmarkContext, Effort
from tests.bench.figures import Result

BENCHMARKS: Mapping[str, Callable[[BenchmarkContext], Result]] = {
    "decisions": decisions.run,
    "commands": commands.run,
    "visible": visible.run,
    "growth": growth.run,
    "history": history.run,
    "memory": memory.run,
    "serving": serving.run,
    "crowd": crowd.run,
    "longpolls": longpolls.run,
    "reach": reach.run,
    "first-response": first_response.run,
    "open-page": open_page.run,
    "suites": suites.run,
    "million-sqlite": million.sqlite,
    "million-postgresql": million.postgresql,
    "cold-start": cold_start.run,
    "workers": workers.run,
    "cluster-commands": pgcommands.run,
    "cluster-visible": clustered.run,
    "recording": recording.run,
    "readers": readers.run,
    "agent": agent.run,
    "arm-reads": arm.reads,
    "arm-restarts": arm.restarts,
    "arm-listing": arm.listing,
}
PAGE = ROOT / "docs" / "benchmarks.md"


@contextmanager
def workplace() -> Iterator[Path]:
    """A temporary folder on the project's own disk."""
    parent = ROOT / ".local"
    parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as folder:
        yield Path(folder)


def measure(names: Sequence[str], effort: Effort, folder: Path, console: Console) -> list[Result]:
    """Run these benchmarks, with a progress bar for each."""
    columns = TextColumn("{task.description:<12}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        tasks = {name: progress.add_task(name, total=None, start=False) for name in names}
        results = []
        for name, task in tasks.items():
            progress.start_task(task)
            context = BenchmarkContext(
                effort,
                folder,
                expect=lambda steps, task=task: progress.update(task, total=steps),  # type: ignore[misc]
                step=lambda task=task: progress.advance(task),  # type: ignore[misc]
            )
            results.append(BENCHMARKS[name](context))
    return results


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and report; return 1 if the figures are not fit for the page, else 0."""
    options = _options(argv)
    console = Console(stderr=True)
    if machines.are_others_busy():
        console.print("Other programs are busy: these figures are not comparable.", style="yellow")
    usage = machines.OtherPrograms()
    names = options.benchmarks or list(BENCHMARKS)
    with workplace() as folder:
        machine = machines.describe(folder)
        results = measure(names, QUICK if options.quick else FULL, folder, console)
    used = usage.share()
    machine["Other programs"] = f"used {used:.0%} of the CPU meanwhile"
    date = datetime.now(UTC).date().isoformat()
    report.show(Console(width=None if sys.stdout.isatty() else 120), machine, results)
    if options.write and used > machines.QUIET:
        console.print(f"Not written: other programs {machine['Other programs']}.", style="red")
        return 1
    if options.write:
        page = report.as_markdown(machine, date, "make bench ARGS=--write", results)
        PAGE.write_text(page, encoding="utf-8")
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="make bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "benchmarks", nargs="*", metavar="BENCHMARK", help=f"any of: {', '.join(BENCHMARKS)}"
    )
    parser.add_argument("--quick", action="store_true", help="small fleets, short rounds")
    parser.add_argument("--write", action="store_true", help=f"rewrite {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(argv)
    if unknown := [name for name in options.benchmarks if name not in BENCHMARKS]:
        parser.error(f"unknown benchmark {unknown[0]!r}; allowed: {', '.join(BENCHMARKS)}")
    if options.write and (options.quick or options.benchmarks):
        parser.error("--write needs all benchmarks in full: omit --quick and benchmark names")
    return options


if __name__ == "__main__":
    # SIGTERM must also end the servers that we have started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    sys.exit(main())
