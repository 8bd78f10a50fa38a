"""Lines of the journal as they come: which are wanted, and how each reads."""

import json
from typing import NamedTuple

import click

from fairwarning.cli.show import Json, pace

LEFT = frozenset({"Ended", "Cancelled", "Lapsed"})  # after which an event is no more
_STYLES = {
    "Scheduled": "yellow",
    "Delivered": "cyan",
    "Approved": "green",
    "PeerApproved": "green",
    "Started": "bold yellow",
    "ImpactBegun": "yellow",
    "ImpactFailed": "bold red",
    "Cancelled": "magenta",
    "Ended": "dim",
}


class LineFilter(NamedTuple):
    """Which lines are wanted; without a wish, all."""

    events: frozenset[str]
    machine: str | None
    scope: str | None

    def holds(self, line: Json) -> bool:
        """Whether this is one. A clock that was moved is told to everybody."""
        if "clock" in line:
            return True
        return (
            (not self.events or line["event"] in self.events)
            and (not self.machine or self.machine in line["machines"])
            and (not self.scope or line["about"] == f"Scope {self.scope}")
        )


def tell(line: Json, *, as_json: bool) -> None:
    """One line: for scripts, for a file (never folded), or in colour for people."""
    if as_json:
        click.echo(json.dumps(line))
        return
    from fairwarning.cli import drawing  # noqa: PLC0415  (rich takes its time)

    at, did, rest = _clock(line["clock"]) if "clock" in line else _told(line)
    drawing.line((at, did, rest), _STYLES.get(did, ""))


def _clock(clock: Json) -> tuple[str, str, str]:
    return clock["now"].partition("T")[2], "ClockMoved", pace(clock)


def _told(line: Json) -> tuple[str, str, str]:
    """When, what, and everything else that is known."""
    who = ", ".join(line["machines"]) or line["about"]
    by = f" by {line['actor']}" if line["actor"] not in {"", who} else ""
    why = f": {line['detail']}" if line["detail"] not in {"", line["actor"]} else ""
    event = f"; event {line['event']}" if line["event"] else ""
    return line["at"].partition("T")[2], line["type"], f"{who}{by}{why}{event}"
