"""Output that several commands share: printing blocks or JSON, and wording of times and events."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from fairwarning.cli.blocks import Block, OutputTable, StyledText
from fairwarning.core.times import parse_date, spoken

Json = dict[str, Any]
"""Something of the service, as its console tells it."""

SHOWN = 200  # rows of a table; nobody reads more, and there may be a million
ASKED = SHOWN + 1  # one more tells that there are more
_TYPES = {"Preempt": "magenta", "Terminate": "red", "Redeploy": "yellow", "Reboot": "yellow"}

as_json = click.option("--json", "as_json", is_flag=True, help="JSON, for scripts.")
watched = click.option(
    "--watch", is_flag=True, help="Go on, and show each change as it happens, until Ctrl-C."
)
waits = click.option(
    "--wait", is_flag=True, help="Until it is over, with a progress bar; exit with 1 if it failed."
)


def print_blocks(*blocks: Block) -> None:
    """On the screen, for people."""
    from fairwarning.cli import drawing  # noqa: PLC0415  (rich takes its time)

    drawing.put(drawing.console(), blocks)


def print_result(value: object, *blocks: Block, as_json: bool) -> None:
    """The value for scripts, or else blocks for people."""
    if as_json:
        click.echo(json.dumps(value))
    else:
        print_blocks(*blocks)


def first_rows(table: OutputTable, what: str) -> list[Block]:
    """A table that is not too long to read, with a hint where there is more."""
    if not table.rows:
        return [f"No {what}."]
    if len(table.rows) <= SHOWN:
        return [table]
    return [table._replace(rows=table.rows[:SHOWN]), f"The first {SHOWN} {what}; --json gives all."]


def examples(*lines: str) -> str:
    """The end of a --help."""
    return "\n".join(["\b", "Examples:", *(f"  fairwarning {line}" for line in lines)])


# --- Words ---------------------------------------------------------------------------------------


def moment(at: str | None, since: str | None = None) -> str:
    """A time of the service: of the day, with the date where it is not that of `since`."""
    if not at:
        return ""
    day, _, time = at.partition("T")
    return time if since and since.startswith(day) else f"{day} {time}"


def until(at: str, now: float) -> str:
    """How far away a time is."""
    left = parse_date(at) - now
    return f"in {spoken(left)}" if left > 0 else "now due"


def coming(event: Json) -> StyledText:
    """What an event announces."""
    style = _TYPES.get(event["type"], "cyan")
    if event["status"] == "Scheduled":
        when = moment(event["not_before"], event["created_at"])
        return StyledText(f"{event['type']} not before {when}", style)
    return StyledText(f"{event['type']} {event['status'].lower()}", f"bold {style}")


def events(found: Iterable[Json]) -> OutputTable:
    """Events, with the ids to type."""
    rows = [(event["id"], coming(event), ", ".join(event["resources"])) for event in found]
    return OutputTable(("event", "what comes", "machines"), rows, whole="event")


def pace(clock: Json) -> str:
    """How the service's time passes."""
    if not clock["virtual"]:
        return "real time"
    rate = f"{clock['rate']:g} times real time" if clock["rate"] else "standing still"
    return f"virtual, {rate}"


def tags(given: Mapping[str, str]) -> str:
    """As they are typed."""
    return ", ".join(f"{name}={value}" for name, value in given.items())


def pending(found: Sequence[Json], now: float, most: int = 5) -> list[Block]:
    """What is still awaited: a line for each event, of the first few."""
    lines: list[Block] = []
    for event in found[:most]:
        names = event["resources"]
        machines = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")
        what = coming(event)
        left = f" ({until(event['not_before'], now)})" if event["status"] == "Scheduled" else ""
        lines.append(StyledText(f"  {machines}: {what.text}{left}", what.style))
    if found[most:]:
        lines.append(f"  and {len(found) - most} events more")
    return lines
