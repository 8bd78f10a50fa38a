"""`make bench`: measure each figure and its peer.

Takes minutes; --quick takes seconds and gives only rough figures. Needs an idle machine.
"""

import argparse
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

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
    readers,
    recording,
    serving,
    suites,
    visible,
    workers,
)
from tests.bench import machine as machines
from tests.bench.context import FULL, QUICK, ROOT, BenchmarkContext
from tests.bench.figures import Result, as_markdown

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
    "reach": serving.run_in_fleets,
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
    "arm-reads": arm.run,
}
PAGE = ROOT / "docs" / "benchmarks.md"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and report; return 1 if the figures are not fit for the page, else 0."""
    options = _options(argv)
    usage, results = machines.OtherPrograms(), []
    parent = ROOT / ".local"  # on the project's own disk
    parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=parent) as name:
        machine = {"Measured": datetime.now(UTC).date().isoformat()}
        machine |= machines.describe(Path(name))
        context = BenchmarkContext(QUICK if options.quick else FULL, Path(name))
        for benchmark in options.benchmarks or BENCHMARKS:
            print(f"measuring {benchmark}", file=sys.stderr)
            results.append(BENCHMARKS[benchmark](context))
    used = usage.share()
    machine["Other programs"] = f"used {used:.0%} of the CPU meanwhile"
    page = "\n".join(as_markdown(machine, results))
    print(page)
    if options.write and used > machines.QUIET:
        print("Not written: other programs were busy.", file=sys.stderr)
        return 1
    if options.write:
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
