"""Journal lines from the stream: filtering and printing."""

import json
import sys
from typing import NamedTuple

import click

from fairwarning.cli.output.show import Json, pace
from fairwarning.core.printable import printable

FINAL = frozenset({"Ended", "Cancelled", "Lapsed"})  # facts that end an event
_STYLES = {
    "Scheduled": "yellow",
    "Delivered": "cyan",
    "ApprovalRefused": "yellow",
    "Approved": "green",
    "PeerApproved": "green",
    "Started": "bold yellow",
    "ImpactBegun": "yellow",
    "ImpactFailed": "bold red",
    "Cancelled": "magenta",
    "Ended": "dim",
}


class LineFilter(NamedTuple):
    """Selects journal lines; an empty filter selects all."""

    events: frozenset[str]
    machine: str | None
    scope: str | None

    def matches(self, line: Json) -> bool:
        """Return whether the filter selects this line. Clock changes always match."""
        if "clock" in line:
            return True
        return (
            (not self.events or line["event"] in self.events)
            and (not self.machine or self.machine in line["machines"])
            and (not self.scope or line["about"] == f"Scope {self.scope}")
        )


def print_line(line: Json, *, as_json: bool) -> None:
    """Print one line: as JSON, or as text with colour on a terminal."""
    if as_json:
        click.echo(json.dumps(line))
        return
    parts = _clock(line["clock"]) if "clock" in line else _columns(line)
    if not sys.stdout.isatty():
        click.echo(printable(" ".join(parts)))
        return
    from fairwarning.cli.output import terminal  # noqa: PLC0415  (rich is slow to import)

    terminal.line(parts, _STYLES.get(parts[1], ""))


def _clock(clock: Json) -> tuple[str, str, str]:
    return clock["now"].partition("T")[2], "ClockMoved", pace(clock)


def _columns(line: Json) -> tuple[str, str, str]:
    """Return the time, the fact and the details of a line."""
    subject = ", ".join(line["machines"]) or line["about"]
    by = f" by {line['actor']}" if line["actor"] not in {"", subject} else ""
    why = f": {line['detail']}" if line["detail"] not in {"", line["actor"]} else ""
    event = f"; event {line['event']}" if line["event"] else ""
    return line["at"].partition("T")[2], line["type"], f"{subject}{by}{why}{event}"
