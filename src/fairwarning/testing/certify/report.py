"""The result of a trap, and reports of results: table, JSON and JUnit."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from fairwarning.testing.certify.traps import Trap
from fairwarning.testing.junit import JUnitCase, write_report

_SHOWN_LINES = 5  # of the output in a failed trap, below the table
_SILENT = (
    "The handler never approves, so every event waits until NotBefore. "
    "If that is intended, use --no-approve."
)


@dataclass(frozen=True, slots=True)
class TrapResult:
    """The result of one program in one trap."""

    trap: Trap
    survived: bool
    seen: str
    seconds: float
    ignored: frozenset[str] = frozenset()  # types of its own events that it did not handle
    handled: frozenset[str] = frozenset()  # types of events that it did
    output: str = ""  # the end of what the program printed


def summary(results: Sequence[TrapResult]) -> str:
    """Return the summary in one line."""
    survived = sum(result.survived for result in results)
    types = ignored(results)
    return f"{survived} of {len(results)} traps survived" + (
        f"; ignores {', '.join(types)}" if types else ""
    )


def ignored(results: Sequence[TrapResult]) -> list[str]:
    """Return the types of events that the handler ignored in some trap and handled in none."""
    types = {name for result in results for name in result.ignored}
    return sorted(types.difference(*(result.handled for result in results)))


def notes(results: Sequence[TrapResult]) -> list[str]:
    """Return notes that apply to all traps."""
    handles = any(result.handled for result in results)
    return [_SILENT] if ignored(results) and not handles else []


def outputs(results: Sequence[TrapResult]) -> Iterator[str]:
    """Yield the last lines that the handler printed in each trap that it failed."""
    for result in results:
        if result.output and not result.survived:
            lines = result.output.splitlines()[-_SHOWN_LINES:]
            yield "\n  ".join([f"Output in {result.trap.name}:", *lines])


def table(results: Sequence[TrapResult]) -> Table:
    """Return a table with one row per trap; a failed trap also shows what was expected."""
    grid = Table(show_lines=True)
    grid.add_column("trap", no_wrap=True)
    grid.add_column("result", no_wrap=True)
    grid.add_column("ignored")
    grid.add_column("observed", ratio=1)
    grid.add_column("expected", ratio=1)
    for result in results:
        word = "[green]survived[/]" if result.survived else "[bold red]failed[/]"
        good = "" if result.survived else result.trap.good
        types = ", ".join(sorted(result.ignored))
        grid.add_row(result.trap.name, word, types, _escape(result.seen), good)
    return grid


def _escape(text: str) -> str:
    """Escape markup in the output of a program."""
    return text.replace("[", r"\[")


def as_json(command: Sequence[str], isolation: str, results: Sequence[TrapResult]) -> str:
    """Return the results as a JSON object."""
    return json.dumps(
        {
            "handler": list(command),
            "isolation": isolation,
            "survived": sum(result.survived for result in results),
            "failed": sum(not result.survived for result in results),
            "ignored": ignored(results),
            "notes": notes(results),
            "traps": [
                {
                    "name": result.trap.name,
                    "survived": result.survived,
                    "happens": result.trap.happens,
                    "ignored": sorted(result.ignored),
                    "seen": result.seen,
                    "good": result.trap.good,
                    "output": result.output,
                    "seconds": round(result.seconds, 1),
                }
                for result in results
            ],
        }
    )


def write_junit(path: Path, results: Sequence[TrapResult]) -> None:
    """Write the results as a JUnit report."""
    cases = [
        JUnitCase(
            result.trap.name,
            result.seconds,
            "" if result.survived else result.seen,
            f"{result.trap.happens}\nExpected: {result.trap.good}",
            f"{result.seen}\n\n{result.output}",
        )
        for result in results
    ]
    write_report(path, "certify", cases, {"ignored": ", ".join(ignored(results))})
