"""Shared output: printing blocks or JSON, and formatting times and events."""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from fairwarning.cli.output import plain_text
from fairwarning.cli.output.blocks import Block, OutputTable, StyledText
from fairwarning.core.times import parse_date, spoken

Json = dict[str, Any]
"""A JSON object from the console API."""

_TYPES = {"Preempt": "magenta", "Terminate": "red", "Redeploy": "yellow", "Reboot": "yellow"}

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
watched = click.option(
    "--watch", is_flag=True, help="Keep watching and print changes until Ctrl-C."
)
waits = click.option(
    "--wait", is_flag=True, help="Wait for completion; exit with 1 if the operation fails."
)


def print_blocks(*blocks: Block) -> None:
    """Print blocks: with colour on a terminal, as plain text elsewhere."""
    if not sys.stdout.isatty():
        print_lines(blocks)
        return
    from fairwarning.cli.output import terminal  # noqa: PLC0415  (rich is slow to import)

    terminal.put(blocks)


def note(*blocks: Block) -> None:
    """Print what is only for people: to stderr if stdout is a pipe or a file."""
    if sys.stdout.isatty():
        print_blocks(*blocks)
    else:
        print_lines(blocks, err=True)


def print_lines(blocks: Iterable[Block], *, err: bool = False) -> None:
    """Print blocks as plain text; no line is folded or cut."""
    click.echo("".join(f"{line}\n" for line in plain_text.lines(blocks)), nl=False, err=err)


def print_result(value: object, *blocks: Block, as_json: bool) -> None:
    """Print the value as JSON, or the blocks as text."""
    if as_json:
        click.echo(json.dumps(value))
    else:
        print_blocks(*blocks)


def examples(*lines: str) -> str:
    """Return the examples section of a --help text."""
    return "\n".join(["\b", "Examples:", *(f"  fairwarning {line}" for line in lines)])


# --- Formatting ----------------------------------------------------------------------------------


def moment(at: str | None, since: str | None = None) -> str:
    """Format a time of the service; omit the date when it is that of `since`."""
    if not at:
        return ""
    day, _, time = at.partition("T")
    return time if since and since.startswith(day) else f"{day} {time}"


def until(at: str, now: float) -> str:
    """Return how far away a time is."""
    left = parse_date(at) - now
    return f"in {spoken(left)}" if left > 0 else "due now"


def summary(event: Json) -> StyledText:
    """Return the type of an event and when it starts, or its status."""
    style = _TYPES.get(event["type"], "cyan")
    if event["status"] == "Scheduled":
        when = moment(event["not_before"], event["created_at"])
        return StyledText(f"{event['type']} not before {when}", style)
    return StyledText(f"{event['type']} {event['status'].lower()}", f"bold {style}")


def events(items: Iterable[Json]) -> OutputTable:
    """Return a table of events."""
    rows = [(event["id"], summary(event), ", ".join(event["resources"])) for event in items]
    return OutputTable(("event", "schedule", "machines"), rows, whole="event")


def counted(count: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def pace(clock: Json) -> str:
    """Return how the service's clock runs."""
    if ahead := clock["ahead_seconds"]:
        return f"real time, {abs(ahead):g} s {'ahead of' if ahead > 0 else 'behind'} wall time"
    if not clock["virtual"]:
        return "real time"
    rate = f"{clock['rate']:g} times real time" if clock["rate"] else "stopped"
    return f"virtual, {rate}"


def tags(values: Mapping[str, str]) -> str:
    """Format tags as K=V, separated by commas."""
    return ", ".join(f"{name}={value}" for name, value in values.items())


def pending(items: Sequence[Json], now: float, most: int = 5) -> list[Block]:
    """Return a line for each of the first pending events."""
    lines: list[Block] = []
    for event in items[:most]:
        names = event["resources"]
        machines = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")
        text, style = summary(event)
        left = f" ({until(event['not_before'], now)})" if event["status"] == "Scheduled" else ""
        lines.append(StyledText(f"  {machines}: {text}{left}", style))
    if items[most:]:
        lines.append(f"  and {len(items) - most} more events")
    return lines


def power(machine: Json) -> StyledText:
    """Return the power state of a machine, and what is being done to it."""
    state, doing = machine["power"], machine["doing"]
    if doing:
        return StyledText(f"{state}, {doing} in progress", "bold")
    return StyledText(state, "green" if state == "running" else "dim")
