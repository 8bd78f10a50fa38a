"""Reports of results: table, JSON, JUnit and badge."""

import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.table import Table

from fairwarning.testing.certify.results import TrapResult

_SILENT = (
    "The handler never approves, so every event waits until NotBefore. "
    "If that is intended, use --no-approve."
)


def summary(results: Sequence[TrapResult]) -> str:
    """Return the summary in one line."""
    survived = sum(result.survived for result in results)
    return f"{survived} of {len(results)} traps survived"


def notes(results: Sequence[TrapResult]) -> list[str]:
    """Return notes that apply to all traps."""
    tried = [result for result in results if result.silent is not None]
    return [_SILENT] if tried and all(result.silent for result in tried) else []


def table(results: Sequence[TrapResult]) -> Table:
    """Return a table with one row per trap; a failed trap also shows what was expected."""
    grid = Table(show_lines=True)
    grid.add_column("trap", no_wrap=True)
    grid.add_column("result", no_wrap=True)
    grid.add_column("observed", ratio=1)
    grid.add_column("expected", ratio=1)
    for result in results:
        word = "[green]survived[/]" if result.survived else "[bold red]failed[/]"
        good = "" if result.survived else result.trap.good
        grid.add_row(result.trap.name, word, _escape(result.seen), good)
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
            "notes": notes(results),
            "traps": [
                {
                    "name": result.trap.name,
                    "survived": result.survived,
                    "happens": result.trap.happens,
                    "seen": result.seen,
                    "good": result.trap.good,
                    "seconds": round(result.seconds, 1),
                }
                for result in results
            ],
        }
    )


def badge(results: Sequence[TrapResult]) -> str:
    """Return a line for a README."""
    return f"Fairwarning: {summary(results)}"


def write_junit(path: Path, results: Sequence[TrapResult]) -> None:
    """Write the results as a JUnit report."""
    failed = sum(not result.survived for result in results)
    suite = ET.Element(
        "testsuite",
        name="fairwarning certify",
        tests=str(len(results)),
        failures=str(failed),
        errors="0",
        skipped="0",
        time=f"{sum(result.seconds for result in results):.1f}",
    )
    for result in results:
        name, seconds = result.trap.name, f"{result.seconds:.1f}"
        case = ET.SubElement(suite, "testcase", classname="certify", name=name, time=seconds)
        if not result.survived:
            failure = ET.SubElement(case, "failure", message=result.seen)
            failure.text = f"{result.trap.happens}\nExpected: {result.trap.good}"
        else:
            ET.SubElement(case, "system-out").text = result.seen
    ET.ElementTree(suite).write(path, "utf-8", xml_declaration=True)
