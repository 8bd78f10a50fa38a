"""What people, scripts and build servers are told of the verdicts."""

import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from rich.table import Table

from fairwarning.testing.certify.judging import TrapResult

_SILENT = (
    "It never approves: it waits for NotBefore, and keeps everybody waiting with it. "
    "If that is meant, say --no-approve."
)


def summary(verdicts: Sequence[TrapResult]) -> str:
    """In a line."""
    survived = sum(verdict.survived for verdict in verdicts)
    return f"{survived} of {len(verdicts)} traps survived"


def notes(verdicts: Sequence[TrapResult]) -> list[str]:
    """What is true of the program in all traps."""
    tried = [verdict for verdict in verdicts if verdict.silent is not None]
    return [_SILENT] if tried and all(verdict.silent for verdict in tried) else []


def table(verdicts: Sequence[TrapResult]) -> Table:
    """A row a trap; what to do instead, where it fell in."""
    made = Table(show_lines=True)
    made.add_column("trap", no_wrap=True)
    made.add_column("", no_wrap=True)
    made.add_column("what was seen", ratio=1)
    made.add_column("what a good handler does", ratio=1)
    for verdict in verdicts:
        word = "[green]survived[/]" if verdict.survived else "[bold red]failed[/]"
        good = "" if verdict.survived else verdict.trap.good
        made.add_row(verdict.trap.name, word, _plain(verdict.seen), good)
    return made


def _plain(text: str) -> str:
    """What a program printed is no markup."""
    return text.replace("[", r"\[")


def as_json(command: Sequence[str], verdicts: Sequence[TrapResult]) -> str:
    """One object, in a line."""
    return json.dumps(
        {
            "handler": list(command),
            "survived": sum(verdict.survived for verdict in verdicts),
            "failed": sum(not verdict.survived for verdict in verdicts),
            "notes": notes(verdicts),
            "traps": [
                {
                    "name": verdict.trap.name,
                    "survived": verdict.survived,
                    "happens": verdict.trap.happens,
                    "seen": verdict.seen,
                    "good": verdict.trap.good,
                    "seconds": round(verdict.seconds, 1),
                }
                for verdict in verdicts
            ],
        }
    )


def badge(verdicts: Sequence[TrapResult]) -> str:
    """A line for a README."""
    return f"Fairwarning: {summary(verdicts)}"


def write_junit(path: Path, verdicts: Sequence[TrapResult]) -> None:
    """As build servers read it."""
    failed = sum(not verdict.survived for verdict in verdicts)
    suite = ET.Element(
        "testsuite",
        name="fairwarning certify",
        tests=str(len(verdicts)),
        failures=str(failed),
        errors="0",
        skipped="0",
        time=f"{sum(verdict.seconds for verdict in verdicts):.1f}",
    )
    for verdict in verdicts:
        name, seconds = verdict.trap.name, f"{verdict.seconds:.1f}"
        case = ET.SubElement(suite, "testcase", classname="certify", name=name, time=seconds)
        if not verdict.survived:
            failure = ET.SubElement(case, "failure", message=verdict.seen)
            failure.text = f"{verdict.trap.happens}\nA good handler: {verdict.trap.good}"
        else:
            ET.SubElement(case, "system-out").text = verdict.seen
    ET.ElementTree(suite).write(path, "utf-8", xml_declaration=True)
